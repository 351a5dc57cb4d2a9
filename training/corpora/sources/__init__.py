"""Where text comes from: the catalogue, downloads, file formats.

Imports `config` and `system`.
"""
