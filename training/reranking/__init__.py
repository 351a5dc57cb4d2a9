"""Cross-encoders: mixing by language, training, measures (Chen et al. 2020).

Imports `models`, `optimisation`, `pipeline`, `corpora`, `evaluation`.
"""
