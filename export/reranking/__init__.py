"""Turns a cross-encoder's checkpoint into a served artifact."""
