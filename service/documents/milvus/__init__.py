"""The same collection on a Milvus server.

Imports the store's kinds and the types of `documents`.
"""
