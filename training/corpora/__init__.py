"""Parallel text: planned, mixed, written, memory-mapped.

Imports `config`, `system` and its own rooms.
"""
