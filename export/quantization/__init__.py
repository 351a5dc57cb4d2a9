"""Quantises an fp32 graph to int8: embedding tables, weight matrices, activations.

Imports only `export.errors`.
"""
