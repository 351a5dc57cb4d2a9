"""Speed and memory of the service beside its peers, over HTTP, on the same texts and weights: `make bench`."""
