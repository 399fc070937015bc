"""Scenarios that train a DLRM asynchronously with parameter servers: their keys, and their family.

`section`: keys; `filling`: defaults and checks; `family`: the entry, behind the interface of `scenarios.family`.
"""
