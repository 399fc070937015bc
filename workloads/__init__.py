"""Workloads: models, sharding planners and the generator of task graphs. Amounts only; no hardware, no times."""
