"""Scenarios that serve a DLRM: requests at a rate, batches, tables behind caches.

`section`: keys; `filling`: defaults and checks; `service`: time of a batch by its size, from the engine; `serving`: the
queue in front of the servers; `family`: the family, behind the interface of `scenarios.family`.
"""
