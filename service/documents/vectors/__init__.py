"""FAISS indexes, derived from the store and rebuilt from it when lost.

Imports the store and `process.files`.
"""
