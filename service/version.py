"""The version of the distribution, and the only place that has it: pyproject.toml reads it from here."""

VERSION = "0.3.0.dev0"
