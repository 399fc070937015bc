"""Scenarios that ship."""

from inputs.catalog import Catalog

CATALOG = Catalog("scenario", "scenarios", "library")
