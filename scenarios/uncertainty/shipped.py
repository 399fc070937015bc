"""The shipped quantiles, which ``python -m benchmarks intervals --write`` computes from the shipped suites."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import Field

from inputs.model import Strict
from inputs.validate import validate
from inputs.yaml_lines import load_yaml
from scenarios.uncertainty.conformal import Quantiles

FILE = Path(__file__).with_name("quantiles.yaml")

JOB_GROUPS = ("one node", "measured nodes", "more nodes")
"""Groups of jobs: on one node; on so many as collectives of the machine were measured on; on more."""

COLLECTIVE_GROUPS = ("collective inside a node", "collective between nodes")


class _Bounds(Strict):
    low: float = Field(le=0)
    high: float = Field(ge=0)
    configurations: int = Field(ge=0)


class _File(Strict):
    quantiles: dict[str, _Bounds]


@cache
def shipped_quantiles() -> Mapping[str, Quantiles]:
    """Quantiles by group."""
    found = validate(_File, load_yaml(FILE)).quantiles
    return {name: Quantiles(of.low, of.high, of.configurations) for name, of in found.items()}


def quantiles_text(found: Mapping[str, Quantiles]) -> str:
    """The file's text: two digits after the point."""
    head = "# python -m benchmarks intervals --write: quantiles of log(measured / predicted) / sigma, by group.\n"
    lines = [
        f"  {name}: {{low: {of.low:.2f}, high: {of.high:.2f}, configurations: {of.configurations}}}\n"
        for name, of in found.items()
    ]
    return head + "quantiles:\n" + "".join(lines)
