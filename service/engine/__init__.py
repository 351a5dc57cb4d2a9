"""Texts in, vectors out: a fair queue over worker threads.

Imports `model` and the errors.
"""
