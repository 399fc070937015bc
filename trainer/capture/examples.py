"""Training steps that ship. Needs no PyTorch."""

from __future__ import annotations

from inputs.catalog import Catalog

EXAMPLES = Catalog("example", "trainer", "examples", suffixes=(".py",), format="Python")
"""Files of `trainer.examples` by name."""
