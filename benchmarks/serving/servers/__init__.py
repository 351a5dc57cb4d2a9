"""What is served of peers that are libraries. Each file runs in its peer's environment, without ours."""
