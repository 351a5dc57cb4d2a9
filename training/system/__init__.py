"""Devices, files and arrays on disk, and how a command ends.

Imports the errors alone.
"""
