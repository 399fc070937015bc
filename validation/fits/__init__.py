"""Fits of constants to measured rows."""
