"""Turns an artifact back into a checkpoint, or into a module that trains further.

Imports `quantization`, the contract, and the encoders of training.
"""
