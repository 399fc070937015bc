"""Resolved scenarios that train a DLRM."""

from __future__ import annotations

from typing import TypeAlias, cast

from scenarios.dlrm.section import DlrmScenario
from scenarios.family import KIND_KEY
from scenarios.resolved import ResolvedScenario
from workloads.dlrm.model.model import DlrmModel

DlrmResolved: TypeAlias = ResolvedScenario[DlrmModel, DlrmScenario]


def dlrm_of(resolved: ResolvedScenario, user: str) -> DlrmResolved:
    """The scenario, for work that exists for DLRMs only.

    Args:
        user: subject of the message, such as ``the reference trainer``.

    Raises:
        InputError: it trains something else.
    """
    if not isinstance(resolved.scenario, DlrmScenario) or not isinstance(resolved.model, DlrmModel):
        raise resolved.document.error(
            KIND_KEY, f"{user} serves dlrm workloads only", given=resolved.kind, expected="dlrm"
        )
    return cast("DlrmResolved", resolved)
