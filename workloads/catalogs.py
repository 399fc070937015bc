"""Shipped models, framework profiles and histograms. Importing it loads none of their types."""

from __future__ import annotations

from inputs.catalog import Catalog

MODELS = Catalog("model", "workloads", "models")
FRAMEWORKS = Catalog("framework", "workloads", "frameworks")
REUSE = Catalog("index reuse histogram", "workloads", "index_reuse")
