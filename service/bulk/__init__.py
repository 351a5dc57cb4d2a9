"""Commands over many texts at once: load, export, check, mine, deduplicate. Knows no HTTP."""
