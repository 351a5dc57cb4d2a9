"""A run: its steps in order, each in its folder, resumed where it stopped.

May import all of training.
"""
