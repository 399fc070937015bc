"""Scenarios: the user's request, and its execution.

`types` (pure and frozen) are the contents of a scenario file; `resolve` fills in defaults and inlines names; `runner`
turns a resolved scenario into results. ``library/`` holds the scenarios that ship.
"""
