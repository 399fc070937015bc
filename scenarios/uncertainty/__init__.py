"""Intervals of predictions: how uncertain each constant is, and what that does to a time.

``docs/explanation/uncertainty.md`` explains the method. `constant`: grades; `usage`: what a run uses; `shares`,
`machine`, `framework`: the constants behind each class of the bound; `vendors`: GPUs of AMD; `interval`: their sum;
`conformal`, `shipped`: quantiles of predicted cases; `jobs`, `collectives`: intervals of runs and of collectives.
"""
