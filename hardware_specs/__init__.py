"""Hardware specs: GPUs, CPUs, NICs, nodes and clusters as YAML, every value with unit, source and grade."""
