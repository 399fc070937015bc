"""Scenarios: what a user asks to be simulated, and how it is carried out.

`types` (pure and frozen) is what a scenario file may say; `resolve` fills in defaults and inlines what names stand
for; `runner` turns a resolved scenario into results. ``library/`` holds the scenarios that ship.
"""
