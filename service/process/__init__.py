"""The process and its machine: memory, cores, descriptors, streams, logs.

Imports only `service.errors`.
"""
