"""``python -m benchmarks robustness``: files of every kind, mutated by structure, each read in a process of its own.

`values` has wrong values; `trees`, `tables` and `lines` mutate YAML and JSON, CSV and Parquet, and bytes; `samples` are
valid files and the commands that read them; `forks` runs a command under limits; `verdicts` judges the result; `study`
draws, shrinks and groups.
"""
