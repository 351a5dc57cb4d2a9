"""The artifact: its manifest, tokenizer, ONNX session, prompts and maps.

Imports `process` and the errors.
"""
