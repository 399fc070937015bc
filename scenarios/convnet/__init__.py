"""Scenarios that train a convolutional network on equal batches of images: their keys, and their family.

`section`: keys; `filling`: defaults and checks; `family`: the entry, behind the interface of `scenarios.family`.
"""
