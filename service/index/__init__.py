"""Keeps documents and finds the nearest: SQLite is the truth, FAISS is derived. Knows vectors; knows no encoder."""
