"""The artifact: manifest, tokenizer, ONNX session, prompts and maps to other spaces.

Imports `process` and the errors.
"""
