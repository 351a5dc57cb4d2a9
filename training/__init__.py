"""Distils a small cross-lingual student from a large encoder (Ding et al. 2022)."""
