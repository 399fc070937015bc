"""Traces: formats other tools read and write, to and from programs and timelines."""
