"""Requests and answers as pydantic models.

Imports the errors and the types of metadata; no route, no engine.
"""
