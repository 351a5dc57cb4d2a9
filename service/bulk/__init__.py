"""Work on files: build, re-embed, mine, find duplicates.

Imports all but `http` and `cli`.
"""
