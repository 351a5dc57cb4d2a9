"""HTTP and only HTTP: the application, its middleware, limits, keys and routes.

Imports the runtime, the engine, the schemas; never `cli` or `bulk`.
"""
