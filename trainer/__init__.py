"""The reference trainer: a hybrid-parallel DLRM in PyTorch that trains what the simulator predicts.

`launch`, `runs` and `pin` need no PyTorch; `python -m trainer` is one rank.
"""
