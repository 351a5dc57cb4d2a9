"""Devices, files and arrays on disk.

Imports the errors alone.
"""
