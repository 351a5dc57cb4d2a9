"""Compares speed and memory of the service with its peers, over HTTP, on the same texts and weights: `make bench`."""
