"""fp32 graph to int8 graph: tables, matrices, activations.

Imports the errors alone; measures nothing.
"""
