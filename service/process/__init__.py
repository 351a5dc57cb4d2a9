"""The process and its machine: memory, cores, descriptors, logs.

Imports only `service.errors`.
"""
