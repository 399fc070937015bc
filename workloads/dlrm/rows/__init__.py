"""Rows that a batch touches: traffic of lookups and updates, hit rates of caches."""
