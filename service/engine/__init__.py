"""Texts in, vectors out: a fair queue over worker threads. Knows no HTTP.

Imports `model` and the errors.
"""
