"""FAISS: derived from the store, and may be thrown away.

Imports the store and `process.files`.
"""
