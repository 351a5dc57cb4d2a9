"""One training loop for all stages: batches, optimizer, checkpoints, processes.

Imports `config` and `system`, not the stages.
"""
