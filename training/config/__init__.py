"""Configuration files as dataclasses, with every check that needs no data.

Imports the errors alone.
"""
