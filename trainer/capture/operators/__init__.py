"""Operators of PyTorch as works of a captured job, a file for each kind."""
