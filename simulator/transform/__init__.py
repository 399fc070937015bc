"""Transformations: a task graph in, a task graph out, each with a law that it keeps.

One file each; a scenario names them in order, and `simulator.transform.sequence` applies them.
"""
