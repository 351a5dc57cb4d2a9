"""Work on whole files and stores: build, export, re-embed, back up, mine, deduplicate.

Imports everything but `http` and `cli`.
"""
