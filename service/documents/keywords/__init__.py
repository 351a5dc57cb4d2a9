"""Keywords (SQLite FTS5): the terms of a text, their index, and their fusion with vectors.

Imports the errors and the types of `documents`.
"""
