"""SQLite: the source of truth for accepted documents.

Imports the errors, `keywords`, `process.files` and the types of `documents`; no vectors, no FAISS.
"""
