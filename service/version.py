"""The version of the distribution; the same text as in pyproject.toml. Knows nothing else."""

VERSION = "0.1.0"
