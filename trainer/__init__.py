"""The reference trainer: a hybrid-parallel DLRM in PyTorch that trains the jobs that the simulator predicts.

`trainer.process` starts, pins and records ranks, `trainer.bench` measures for calibrations; `python -m trainer` is one
rank.
"""
