"""SQLite: what was accepted, and the truth.

Imports the errors and the types of `documents`; no vectors, no FAISS.
"""
