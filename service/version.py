"""The version of the distribution; must equal the one in pyproject.toml."""

VERSION = "0.1.0"
