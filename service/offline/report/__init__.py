"""What `crosslet index report` measures on a store's own documents, and the page it writes.

Imports what `offline` may.
"""
