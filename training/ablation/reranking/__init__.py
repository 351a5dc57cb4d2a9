"""The re-ranking study: {merged, cascade, mixed} x {with, without XPI} (Chen et al. 2020); `crosslet ablate`.

Imports the parent package and `training.reranking`.
"""
