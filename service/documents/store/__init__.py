"""SQLite: the source of truth for accepted documents.

Imports the errors, `keywords` and the types of `documents`; no vectors, no FAISS.
"""
