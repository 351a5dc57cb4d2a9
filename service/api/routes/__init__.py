"""One module a route family: reads the request, asks the runtime, writes the answer.

Imports what `http` does.
"""
