"""Origin of each number of a run: every sourced value of a resolved scenario, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from inputs.quantities import format_quantity, parse_quantity
from inputs.units import DIMENSIONS
from reports.findings import Origin
from scenarios.resolved import ResolvedScenario


def origins(resolved: ResolvedScenario) -> tuple[Origin, ...]:
    """All values with a source that the run used: model, framework, machine."""
    parts = resolved.to_dict()
    groups = {
        "model": parts["workload"]["model"],
        "framework": parts["workload"]["framework"],
        "cluster": parts["cluster"],
    }
    return tuple(origin for group, part in groups.items() for origin in _walk(group, (), part))


def _walk(group: str, path: tuple[str, ...], part: Any) -> Iterator[Origin]:
    if isinstance(part, Mapping) and "source" in part and "grade" in part:
        yield _origin(group, path, part)
    elif isinstance(part, Mapping):
        for key, inner in part.items():
            yield from _walk(group, (*path, str(key)), inner)
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _walk(group, (*path[:-1], f"{path[-1] if path else ''}[{number}]"), inner)


def _origin(group: str, path: tuple[str, ...], part: Mapping[str, Any]) -> Origin:
    others = [f"{_text(other['value'])} ({other['source']})" for other in part.get("alternatives") or ()]
    notes = [part.get("note") or "", f"alternatives: {'; '.join(others)}" if others else ""]
    return Origin(
        group=group,
        quantity=".".join(path),
        value=_text(part["value"]) if "value" in part else _measured(part),
        grade=str(part["grade"]),
        source=str(part["source"]),
        note="; ".join(note for note in notes if note),
    )


def _measured(part: Mapping[str, Any]) -> str:
    """A calibration point in words: everything but where it is from."""
    shown = {key: value for key, value in part.items() if key not in ("source", "grade", "note")}
    return ", ".join(f"{key} {_text(value)}" for key, value in shown.items())


def _text(value: Any) -> str:
    """A value for people: quantities with a fitting unit, long lists shortened."""
    if isinstance(value, str):
        unit = value.partition(" ")[2]
        dimension = next((name for name, kind in DIMENSIONS.items() if kind.base and kind.base == unit), None)
        return format_quantity(parse_quantity(value, dimension), dimension) if dimension else value
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items() if inner is not None)
    if isinstance(value, list):
        shown = ", ".join(f"({_text(item)})" if isinstance(item, Mapping) else _text(item) for item in value[:4])
        return f"{shown} ... ({len(value)} in all)" if len(value) > 4 else shown
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
