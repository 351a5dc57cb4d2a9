"""Requests and answers as pydantic models.

Imports the errors, the types of metadata, `json_parsing` and `spelling`; no route, no engine.
"""
