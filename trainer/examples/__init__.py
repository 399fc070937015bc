"""Training steps in plain PyTorch that ship as examples for ``dlrmsim capture``, a file for each."""
