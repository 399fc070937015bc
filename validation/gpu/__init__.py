"""Calibration of a GPU machine from measurements on it."""
