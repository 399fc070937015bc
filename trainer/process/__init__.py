"""Processes of the trainer: their command line, cores, launcher, records and yardstick.

Only `record`, `yardstick` and `gpus` need PyTorch to be imported.
"""
