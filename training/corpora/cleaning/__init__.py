"""Which pairs are kept: filters, language checks, leakage.

Imports `sources`, `config` and `system`.
"""
