"""Encoders, and where their weights come from: bases, teachers, starts.

Imports `config`, `system`, `vocabulary`.
"""
