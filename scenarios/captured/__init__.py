"""Captured jobs as a family of workloads: keys of their scenarios, and what `dlrmsim run` reports about them.

`workloads.captured` has the records and the task graph.
"""
