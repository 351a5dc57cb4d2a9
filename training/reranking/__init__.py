"""Cross-lingual passage re-ranking after Chen et al. 2020: a cross-encoder of query and passage."""
