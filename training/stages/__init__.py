"""The four training stages of Ding et al. 2022, one objective each.

Imports `losses`, `models`, `optimisation`, `corpora`, `vocabulary`.
"""
