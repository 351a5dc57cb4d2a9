"""Configuration files as dataclasses, and every check that needs no data.

Imports the errors alone.
"""
