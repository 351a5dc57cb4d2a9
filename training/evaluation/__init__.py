"""Scores models on similarity, paraphrase, bitext, mining, retrieval and search sets; `crosslet evaluate`.

Imports `models`, `reranking`, and the service, to score an artifact as it is served.
"""
