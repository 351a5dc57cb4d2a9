"""Parallel text: mixed into a corpus on disk, and drawn from it.

Imports `config`, `system` and its own rooms.
"""
