"""Calibration of the machine that dlrmsim runs on: its CPUs, its GPUs, and training jobs drawn at random."""
