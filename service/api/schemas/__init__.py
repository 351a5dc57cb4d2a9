"""Requests and answers as pydantic models.

Imports the errors, the types of metadata and `spelling`; no route, no engine.
"""
