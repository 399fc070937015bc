"""Processes of the trainer: their command line, cores, launcher, records and yardstick.

Only `record` and `yardstick` need PyTorch to be imported.
"""
