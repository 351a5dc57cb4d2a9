"""The same document index on a Milvus server.

Imports the store's field types and the types of `documents`.
"""
