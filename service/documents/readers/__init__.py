"""Reads documents from files of any size, one record at a time; a module a format.

Imports the store's limits on numbers, `json_parsing` and the errors.
"""
