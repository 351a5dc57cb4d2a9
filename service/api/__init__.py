"""Everything HTTP: the application, its middleware, limits, keys and routes.

Imports the runtime, the engine and the schemas; never `cli` or `offline`.
"""
