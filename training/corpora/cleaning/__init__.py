"""What text is kept: filters, languages, leakage.

Imports `sources`, `config` and `system`.
"""
