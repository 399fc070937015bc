"""Convolutional networks: architectures as layer graphs, and the programs of their data-parallel training."""
