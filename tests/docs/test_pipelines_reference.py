"""docs/reference/pipelines.md describes each pipeline as the schedule does."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.graph.schedule import SCHEDULES, Schedule

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pipelines.md"


def rows() -> dict[str, list[str]]:
    """Pipeline -> the cells of its row behind its class."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip(" `"): row[2:] for row in found if len(row) == 8}


def batch(ahead: int) -> str:
    return f"i+{ahead}" if ahead else "i"


def cells(schedule: Schedule) -> list[str]:
    order = ", ".join(
        f"{part} of i+{schedule.fill if part == 'fill' else schedule.splits}"
        if part == "fill" or (part == "splits" and schedule.splits != schedule.indices)
        else part
        for part in schedule.order
    )
    ahead = [batch(schedule.copy), batch(schedule.indices), batch(schedule.lookup)]
    return [*ahead, order, str(schedule.batches_on_device), str(schedule.staleness)]


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_each_pipeline_stands_as_it_is(name: str) -> None:
    assert rows()[name] == cells(SCHEDULES[name])  # type: ignore[index]


def test_no_pipeline_stands_that_is_gone() -> None:
    assert set(rows()) == set(SCHEDULES)
