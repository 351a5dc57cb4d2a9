"""The same collections of documents on a Milvus server.

Imports the interface, the types of `documents`, keywords, the SQL of filters, and how collections are held and results
arranged.
"""
