"""Keywords: terms of texts, their index in the store, and their fusion with vectors."""
