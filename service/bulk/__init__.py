"""Work on whole files and stores: build, export, re-embed, mine, deduplicate.

Imports everything but `http` and `cli`.
"""
