"""Tokenizers, new and pruned, their normalisation, and token ids on disk.

Imports `config`, `corpora`, `system`.
"""
