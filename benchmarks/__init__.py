"""Benchmarks: each prints rows of {name, value, unit, bound}. ``python -m benchmarks NAME [--json]``."""
