"""Parallel text: reading, cleaning, mixing, and proof that no evaluation sentence is in it."""
