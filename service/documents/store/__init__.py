"""SQLite: the source of truth for accepted documents.

Imports the errors and the types of `documents`; no vectors, no FAISS.
"""
