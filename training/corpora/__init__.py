"""Parallel text: mixed into a corpus on disk, and drawn from it.

Imports `config` and `system`.
"""
