"""Pages and tables that only transformers have: divisions among ranks."""
