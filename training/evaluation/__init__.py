"""Measures of models on similarity, paraphrase, bitext and retrieval sets; `export.evaluation` is the command.

Imports `config`, `models`, `system`.
"""
