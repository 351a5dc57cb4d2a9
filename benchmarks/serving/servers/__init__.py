"""Servers for peers that are libraries. Each file runs in its peer's environment and cannot import this project."""
