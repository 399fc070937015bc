"""Kineto traces: the Chrome-format JSON of PyTorch's profiler."""
