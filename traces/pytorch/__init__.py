"""PyTorch execution traces: operators with shapes and data dependencies, without times."""
