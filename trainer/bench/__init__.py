"""Measurements for calibrations: kernels and collectives alone, and series of jobs.

`plans` needs no PyTorch, `series` only in its ranks.
"""
