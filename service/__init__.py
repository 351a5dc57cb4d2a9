"""Serves a crosslet artifact over HTTP. Knows the artifact and its index; knows nothing about training."""
