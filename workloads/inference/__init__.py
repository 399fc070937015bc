"""Serving of DLRMs: each rank answers batches of requests with a copy of the model, whose tables are behind a cache.

A server holds the rows that are looked up most in a cache of its device, the node holds more of them in host memory,
and all of them on SSDs (NVIDIA's hierarchical parameter server: Wei et al., RecSys 2022). An iteration is one batch of
each server: lookup in the cache, missing rows found by threads of the host, read from SSDs, copied to the device and
put into the cache, then the forward pass. Servers on CPUs have their tables in memory.

`settings`: the job; `tiers`: rows of a batch by tier; `work`: amounts of a batch; `batch`: its program; `memory`;
`family`: all of it as a workload.
"""
