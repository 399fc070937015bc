"""The file formats: their JSON Schemas, and a commented scenario."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel

from inputs.errors import InputError, nearest_name

KINDS = ("scenario", "cluster", "model", "framework", "plan", "suite")


def json_schema(kind: str) -> Mapping[str, object]:
    """The JSON Schema (2020-12) of files of this kind.

    Raises:
        InputError: the kind is unknown.
    """
    if kind not in KINDS:
        raise InputError("unknown kind", given=kind, expected=", ".join(KINDS), nearest=nearest_name(kind, KINDS))
    found = _model(kind).model_json_schema(by_alias=True)
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
        from workloads.graph.framework import Framework

        return Framework
    if kind == "plan":
        from workloads.dlrm.sharding import PlanFile

        return PlanFile
    if kind == "suite":
        from validation.suites.suite import Suite

        return Suite
    from workloads.dlrm.model.model import DlrmModel

    return DlrmModel


def scenario_template() -> str:
    """A scenario with every key and comments."""
    return files("scenarios").joinpath("template.yaml").read_text(encoding="utf-8")


def write_scenario_template(file: Path) -> None:
    """Create a file with `scenario_template`.

    Raises:
        InputError: it exists, or cannot be created.
    """
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(scenario_template())
    except FileExistsError:
        raise InputError("exists; nothing was written", file=file, expected="the name of a new file") from None
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", file=file) from None
