"""Scenarios that train a transformer: their keys, and their family.

`section`: keys; `filling`: defaults and checks; `family`: the entry, behind the interface of `scenarios.family`.
"""
