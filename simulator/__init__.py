"""The simulator: program, compute and network models, lowering, engine, timeline, analysis.

This room knows ranks, streams, tasks and resources; it has never heard of DLRM. Models decide *amounts*
(seconds alone, bytes on a resource), the engine decides *times*.
"""
