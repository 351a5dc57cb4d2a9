"""Requests and answers as pydantic models.

Imports the errors and the kinds of metadata; no route, no engine.
"""
