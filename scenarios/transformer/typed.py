"""Resolved scenarios that train a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from scenarios.resolve import asked_again, changed
from scenarios.resolved import ResolvedScenario
from scenarios.transformer.section import TransformerScenario
from workloads.transformer.architecture import Transformer

TransformerResolved: TypeAlias = ResolvedScenario[Transformer, TransformerScenario]


def with_changes(resolved: TransformerResolved, settings: Sequence[str], *, fresh: bool = False) -> TransformerResolved:
    """The scenario with ``KEY=VALUE`` settings; raises as `scenarios.resolve.changed`.

    Args:
        fresh: whether defaults that depend on a changed key follow it (`scenarios.resolve.asked_again`).
    """
    return cast("TransformerResolved", (asked_again if fresh else changed)(resolved, settings))
