"""Calibration of a host: costs of kernels and collectives on its CPU cores, from jobs trained on it."""
