"""Configuration files as pydantic models, and every check that needs no data.

Imports the errors alone.
"""
