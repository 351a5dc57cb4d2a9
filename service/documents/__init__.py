"""Documents with metadata, and search over them; `collections` joins store and vectors, `search` finds.

Imports its own rooms, `process.files`, `blending`, `spelling` and the errors.
"""
