"""Documents with metadata, and search over them; `collection` joins store and vectors.

Imports its own rooms and the errors.
"""
