"""The process and its machine: memory, cores, descriptors, streams, logs.

Imports the errors alone.
"""
