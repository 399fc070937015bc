"""Transformers: architectures from their sizes, kernels of a layer, and the programs of their parallel training."""
