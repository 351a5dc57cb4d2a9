"""Trains a grid of variants of one run, and reports what they show."""
