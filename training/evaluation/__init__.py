"""What a model is worth: similarity, bitext, search, mining; `crosslet evaluate`.

Imports `models`, `reranking`, and the service to score an artifact as it is served.
"""
