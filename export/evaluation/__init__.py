"""Scores models as they are served: an artifact, a checkpoint or any other; `crosslet evaluate`.

Imports `training.evaluation`, whose measures need no service, and the service's keywords, fusion, margins and passages.
"""
