"""Keywords (SQLite FTS5): the terms of a text, and their index.

Imports the errors and the types of `documents`.
"""
