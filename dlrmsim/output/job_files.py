"""Files of a job that was taken over: scenario, model, tables and plan, each where a person would write it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dlrmsim.output.json_file import write_json
from dlrmsim.output.record import write_record
from trainer.torchrec.taken_over import TakenOver

SCENARIO_FILE, MODEL_FILE, TABLES_FILE, PLAN_FILE = "scenario.yaml", "model.yaml", "tables.csv", "plan.json"
_BETWEEN = "|"
"""Separates names and figures in a cell."""


def write_job(folder: Path, scenario: Mapping[str, Any], found: TakenOver) -> None:
    """Write the files of a scenario whose model and plan are written out."""
    workload = dict(scenario["workload"])
    model = dict(workload["model"])
    (folder / TABLES_FILE).write_text(_tables(model.pop("tables"), found.features), encoding="utf-8")
    whole = {"name": model.pop("name"), "title": model.pop("title"), "table_list": TABLES_FILE, **model}
    (folder / MODEL_FILE).write_text(_yaml(whole), encoding="utf-8")
    workload["model"] = MODEL_FILE
    sharding = dict(workload.get("sharding", {}))
    if isinstance(sharding.get("plan"), Mapping):
        write_json(folder / PLAN_FILE, sharding["plan"])
        workload["sharding"] = sharding | {"plan": PLAN_FILE}
    head = "".join(f"# {note}\n" for note in ("Taken over from TorchRec.", *found.notes))
    (folder / SCENARIO_FILE).write_text(head + _yaml({**scenario, "workload": workload}), encoding="utf-8")
    write_record(folder, {"notes": list(found.notes)})


def _yaml(data: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)


def _tables(groups: Sequence[Mapping[str, Any]], features: Mapping[str, tuple[str, ...]]) -> str:
    """The list of tables as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    unpooled = [group for group in groups if "sequence" in group]
    writer.writerow(["name", "rows", "dim", "features", "pooling", "dtype", *(["sequence"] if unpooled else [])])
    for group in groups:
        pooling = group.get("pooling_factor", [])
        each = _BETWEEN.join(map(repr, pooling)) if isinstance(pooling, list) else repr(pooling)
        named = _features(features[group["name"]], group["features"])
        sequence = [group.get("sequence", "")] if unpooled else []
        writer.writerow([group["name"], group["rows"], group["dim"], named, each, group["precision"], *sequence])
    return text.getvalue()


def _features(names: Sequence[str], count: int) -> str:
    """Names of the features; their number where a cell cannot hold the names."""
    unsafe = any(_BETWEEN in name or "," in name or name.strip(" '\"[]") != name for name in names)
    number = len(names) != count or unsafe or (count == 1 and names[0].isdecimal())
    return str(count) if number else _BETWEEN.join(names)
