"""Turns an artifact back into a checkpoint.

Imports `quantization`, the contract, and the encoders of training.
"""
