"""Where text comes from: catalogue, downloads, formats.

Imports `config` and `system`.
"""
