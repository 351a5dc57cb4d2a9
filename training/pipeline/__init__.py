"""Training runs: ordered steps, one folder a step, resumable after a kill.

May import all of training.
"""
