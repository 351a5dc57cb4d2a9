"""Measures sentence encoders: semantic similarity and bitext retrieval."""
