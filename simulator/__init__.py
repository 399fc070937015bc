"""The simulator: program, compute and network models, lowering, engine, timeline, analysis.

This room knows ranks, streams, tasks and resources. Of workloads it knows operators (`simulator.operators`: GEMMs,
lookups in embedding tables), collective calls (`simulator.collective_calls`), and neither models, plans nor scenarios.
Models of machines decide *amounts* (seconds alone, bytes on a resource), the engine decides *times*.
"""
