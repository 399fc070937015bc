"""Architectures of convolutional networks, one file per family."""
