"""Documents with metadata, and the search over them; `collection` joins store and vectors.

Imports its own rooms and the errors; knows no text, no HTTP.
"""
