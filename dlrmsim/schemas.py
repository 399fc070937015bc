"""JSON Schemas of the file formats."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from inputs.errors import InputError, nearest_name

KINDS = ("scenario", "cluster", "model", "framework", "plan")


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of files of this kind.

    Raises:
        InputError: the kind is unknown.
    """
    if kind not in KINDS:
        raise InputError("unknown kind", given=kind, expected=", ".join(KINDS), nearest=nearest_name(kind, KINDS))
    found = PLAN if kind == "plan" else _model(kind).model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _model(kind: str) -> type[BaseModel]:
    """The pydantic model of a kind; only the room it lives in is loaded."""
    if kind == "scenario":
        from scenarios.types import Scenario

        return Scenario
    if kind == "cluster":
        from hardware_specs import Cluster

        return Cluster
    if kind == "framework":
        from workloads.framework import Framework

        return Framework
    from workloads.model import DlrmModel

    return DlrmModel


_COUNT = {"type": "integer", "minimum": 0}

PLAN: dict[str, Any] = {
    "title": "Plan",
    "description": "A sharding plan, as `Plan.to_dict` of workloads/plan.py writes it.",
    "type": "object",
    "required": ["world_size", "tables"],
    "properties": {
        "planner": {"type": "string", "description": "who made it"},
        "world_size": {"type": "integer", "minimum": 1},
        "rows_scale": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "tables": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["sharding_type"],
                "properties": {
                    "sharding_type": {"enum": ["table_wise", "column_wise", "row_wise", "data_parallel"]},
                    "shards": {
                        "description": "column ranges of table_wise and column_wise tables",
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["rank", "column", "dim"],
                            "properties": {"rank": _COUNT, "column": _COUNT, "dim": {"type": "integer", "minimum": 1}},
                        },
                    },
                },
            },
        },
    },
}
"""Plans are read by `workloads.plan.plan_from_dict`, which checks more than a schema can say."""
