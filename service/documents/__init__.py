"""Documents with metadata, and search over them; `collection` joins store and vectors.

Imports its own rooms, `process.files` and the errors.
"""
