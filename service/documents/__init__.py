"""Documents with metadata, and search over them; `collection` joins store and vectors, `search` is the way of a search.

Imports its own rooms, `process.files`, `blending` and the errors.
"""
