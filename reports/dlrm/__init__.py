"""Pages and tables that only DLRMs have: sharding plans."""
