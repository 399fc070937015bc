"""Reading what people write: quantities with units, YAML with line numbers, nearest names, the exception tree.

Imports nothing of ours.
"""
