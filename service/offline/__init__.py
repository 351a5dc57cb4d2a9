"""What runs beside no request: building, backing up, repairing and measuring a store, and work on files of texts.

Nothing here is imported when the service starts. May import all of the service but `cli`, and of `api` only `schemas`.
"""
