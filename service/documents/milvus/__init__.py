"""The same document index on a Milvus server.

Imports the interface, the types of `documents`, the SQL of filters, and how a search pages.
"""
