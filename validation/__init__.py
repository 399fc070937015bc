"""Suites of published measurements, and predicted against measured."""
