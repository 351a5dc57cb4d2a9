"""Turns a checkpoint into a served artifact: ONNX graph, quantised weights, manifest, parity pack, model card."""
