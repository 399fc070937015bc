"""Transformations: functions from task graph to task graph, each with a conservation law.

Each transformation has its own file. A scenario lists transformations in order, and `simulator.transform.sequence`
applies them.
"""
