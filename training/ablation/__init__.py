"""A grid of runs and its report; `crosslet ablate`.

May import all of training.
"""
