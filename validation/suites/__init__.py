"""Suites: published measurements beside their predictions."""
