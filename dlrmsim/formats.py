"""The file formats: their JSON Schemas, and a commented scenario."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel

from inputs.errors import InputError, nearest_name

_MODELS = {
    "scenario": "",
    "cluster": "hardware_specs:Cluster",
    "model": "workloads.dlrm.model.model:DlrmModel",
    "framework": "workloads.graph.framework:Framework",
    "plan": "workloads.dlrm.sharding:PlanFile",
    "suite": "validation.suites.suite:Suite",
    "jobs": "scenarios.arrivals.jobs_file:JobsFile",
}
"""Module and class of the pydantic model of each kind of file; one model covers scenarios of all kinds of workload."""
KINDS = tuple(_MODELS)


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
        from scenarios.every_kind import scenario_of_every_kind

        return scenario_of_every_kind()
    module, _, name = _MODELS[kind].partition(":")
    found: type[BaseModel] = getattr(import_module(module), name)
    return found


MODEL_FILE, TABLES_FILE = "model.yaml", "tables.csv"
"""File names of the model and of its list of tables that `write_templates` writes with a scenario."""
_OWN_MODEL = {
    "  model: zionex_a                 #": f"  model: {MODEL_FILE}               #",
    "  # framework: neo                #": "  framework: pytorch              #",
}
"""Lines of the scenario template that change for the model template, which PyTorch trains."""


def scenario_template(*, model: bool = False, kind: str | None = None) -> str:
    """A scenario with every key of a kind of workload and comments; with ``model`` it names `MODEL_FILE`.

    Raises:
        InputError: there is no such kind, it has no template, or no files of models.
    """
    from scenarios.family import FAMILIES
    from scenarios.types import DEFAULT_KIND

    family = FAMILIES.get(kind or DEFAULT_KIND, key="--kind")
    if model and family.kind != DEFAULT_KIND:
        raise InputError("models of this kind are no files", key="--model", given=f"kind {kind}", expected=DEFAULT_KIND)
    text = family.template + _text("scenarios", "template_end.yaml")
    refused = tuple(f"#   {key}:" for key in family.refused)
    text = "".join(line for line in text.splitlines(keepends=True) if not refused or not line.startswith(refused))
    for shipped, own in _OWN_MODEL.items() if model else ():
        text = text.replace(shipped, own)
    return text


def write_templates(file: Path, *, model: bool = False, kind: str | None = None) -> list[Path]:
    """Create a file with `scenario_template`, and with ``model`` a model and its tables beside it; all or none.

    Raises:
        InputError: a file exists, or cannot be created; or as `scenario_template`.
    """
    texts = {file: scenario_template(model=model, kind=kind)}
    if model:
        texts[file.parent / MODEL_FILE] = _text("workloads.dlrm", "model_template.yaml")
        texts[file.parent / TABLES_FILE] = _text("workloads.dlrm", "tables_template.csv")
    for target in texts:
        if target.is_dir():
            raise InputError("is a folder; nothing was written", file=target.absolute(), expected="a new file's name")
        if target.exists():
            raise InputError("exists; nothing was written", file=target, expected="the name of a new file")
    for target, text in texts.items():
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"cannot be created: {error.strerror}", file=target, expected="a file that can be written"
            ) from None
    return list(texts)


def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
