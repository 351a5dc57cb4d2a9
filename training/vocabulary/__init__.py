"""Tokenizers: new, pruned, normalised; token ids on disk.

Imports `config`, `corpora`, `system`.
"""
