"""Scenarios that serve a DLRM: requests at a rate, batches, tables behind caches.

`section`: keys; `filling`: defaults and checks; `service`: time of a batch by its size, from the engine; `serving`: the
queue in front of it; `family`: the entry, behind the interface of `scenarios.family`.
"""
