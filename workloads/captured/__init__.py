"""Captured training steps: recorded operators and collectives of a user's PyTorch program as a workload."""
