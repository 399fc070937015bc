"""docs/reference/scenario.md names every key of every kind of workload with the default it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from dlrmsim.formats import json_schema
from inputs.yaml_lines import parse_yaml
from scenarios.arrivals.jobs_file import ArrivingKind, Deadline, JobsFile, WaitingQueue
from scenarios.dlrm.plans import PlanningJob
from scenarios.dlrm.section import TableConstraint
from scenarios.family import FAMILIES
from scenarios.resolve import load_scenario
from scenarios.types import DEFAULT_KIND, Scenario
from simulator.transform.transformation import TRANSFORMATIONS, Transformation

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "scenario.md"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object, str]]:
    """(dotted key, default, description) of every value below ``model``."""
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{key}.")
        else:
            default = "required" if field.is_required() else field.get_default(call_default_factory=True)
            yield key, default, field.description or ""


def table(heading: str) -> dict[str, tuple[str, str]]:
    """Key -> (default, meaning) as the page has them below a heading; the part before all headings has none."""
    part = next(p for p in PAGE.read_text(encoding="utf-8").split("\n## ") if p.startswith(heading))
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]
    return {key: (default, meaning) for key, default, meaning in cells}


def of_kind(kind: str) -> dict[str, tuple[object, str]]:
    """Key -> (default, description) of the sections whose keys depend on the kind of workload."""
    found = keys(FAMILIES.get(kind).scenario)
    return {key: (default, words) for key, default, words in found if key.startswith(("workload.", "precision."))}


def of_all() -> dict[str, tuple[object, str]]:
    """Key -> (default, description) of the sections that all scenarios have."""
    found = keys(Scenario)
    return {key: (default, words) for key, default, words in found if not key.startswith(("workload.", "precision."))}


def shown(default: object) -> str:
    return {"None": "", "()": "none", "{}": "none"}.get(str(default), str(default))


@pytest.mark.parametrize("kind", ["", *FAMILIES.names()])
def test_every_key_stands_with_its_default_and_meaning(kind: str) -> None:
    expected = of_kind(kind) if kind else of_all()
    written = table(f"workload.kind: {kind}" if kind else "# Scenario")
    assert written == {key: (shown(default), words) for key, (default, words) in expected.items()}


def test_every_key_of_arriving_jobs_stands_with_its_default_and_meaning() -> None:
    """Lists and parts that may be left out have their keys below the key of the whole."""
    parts = {"": JobsFile, "queue.": WaitingQueue, "jobs.": ArrivingKind, "jobs.deadline.": Deadline}
    expected = {key: (shown(default), words) for at, part in parts.items() for key, default, words in keys(part, at)}
    assert table("Arriving jobs") == expected


def test_every_key_of_a_constraint_stands_with_its_meaning() -> None:
    page = (PAGE.parent / "sharding.md").read_text(encoding="utf-8")
    part = next(part for part in page.split("\n## ") if part.startswith("Constraints of tables"))
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", part, re.MULTILINE)
    assert dict(rows) == {key: words for key, _, words in keys(TableConstraint)}


def test_the_example_of_constraints_is_planned() -> None:
    """Each table of the example as it says."""
    page = (PAGE.parent / "sharding.md").read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "constraints" in block)
    constraints = parse_yaml(example, PAGE).data["sharding"]["constraints"]
    settings = [f"workload.sharding.constraints={json.dumps(constraints)}"]
    plan = PlanningJob.of(load_scenario("mlperf_dlrm_v1", settings)).make("greedy")
    kinds, held = dict(zip(plan.tables.names, plan.sharding_types, strict=True)), plan.shards()
    ranks = {name: set(held.rank[held.table == i].tolist()) for i, name in enumerate(plan.tables.names)}
    assert kinds["table_0"] in {"row_wise", "table_row_wise"}
    assert (kinds["table_9"], kinds["table_5"]) == ("column_wise", "data_parallel")
    assert ranks["table_9"] <= {0, 1, 2, 3}
    assert all(ranks[f"table_1{digit}"] == ranks["table_10"] <= {4, 6} for digit in range(10))


def test_every_key_of_every_transformation_stands_with_its_default_and_meaning() -> None:
    """Keys that all have stand once, and again only where the default is another one."""
    common = {key: (shown(default), words) for key, default, words in keys(Transformation)}
    own = {
        f"{name}.{key}": (shown(default), words)
        for name, kind in TRANSFORMATIONS.items()
        for key, default, words in keys(kind)
        if common.get(key) != (shown(default), words)
    }
    assert table("Transformations") == common | own


def test_the_schema_has_the_keys_of_every_transformation() -> None:
    schema = json_schema("scenario")
    step = schema["$defs"]["TransformStep"]["properties"]
    assert set(step) == set(TRANSFORMATIONS.names())
    assert schema["$defs"]["Move"]["required"] == ["to"]


def test_the_schema_has_the_keys_of_every_kind() -> None:
    """JSON Schema: one of the families' sections; only the default kind may be left out."""
    schema = json_schema("scenario")
    sections = {definition["properties"]["kind"]["const"]: definition for definition in sections_of(schema)}
    assert set(sections) == set(FAMILIES.names())
    for kind, definition in sections.items():
        assert set(definition["properties"]) == {
            key.split(".")[1] for key in of_kind(kind) if key.startswith("workload.")
        }
        assert ("kind" in definition.get("required", ())) is (kind != DEFAULT_KIND)


def sections_of(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    work = schema["properties"]["workload"]
    return [schema["$defs"][ref["$ref"].rpartition("/")[2]] for ref in work.get("oneOf", [work])]
