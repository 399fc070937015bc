"""How often rows are looked up: popularity laws, reuse, pooling factors, index files."""
