"""Shipped suites of published measurements. Importing it loads none of their types."""

from __future__ import annotations

from inputs.catalog import Catalog

SUITES = Catalog("suite", "validation", "suites")
