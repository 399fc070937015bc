"""The reference trainer: a hybrid-parallel DLRM in PyTorch that trains the jobs that the simulator predicts.

`launch`, `runs` and `pin` need no PyTorch; `python -m trainer` is one rank.
"""
