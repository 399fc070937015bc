"""Frequencies of row lookups: popularity laws, reuse, pooling factors, index files."""
