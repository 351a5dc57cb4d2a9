"""The four stages of the paper, an objective each.

Imports `losses`, `models`, `optimisation`, `corpora`, `vocabulary`.
"""
