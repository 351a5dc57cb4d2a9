"""Reads documents from files of any size, one record at a time; a module a format.

Imports the store's limits on numbers, templates of documents' own fields, `json_parsing`, `spelling` and
the errors.
"""
