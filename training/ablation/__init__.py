"""Ablations: a grid of training runs and its report; `crosslet ablate`.

May import all of training.
"""
