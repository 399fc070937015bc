"""The parameters of a fabric that `validation.fits.fitting` looks for: names, bounds, and the block of a spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hardware_specs.collectives import MOST_SPAN, FittedCollectives
from hardware_specs.types import Cluster
from simulator.network.call_table import Kind
from simulator.operators import FloatArray
from validation.suites.collectives import MeasuredCollective

FACTORS = ("base_factor", "near_hop_factor", "network_hop_factor", "post_factor")
LARGEST_FACTOR = 5.0
"""A factor of NCCL's latencies is at most this, and at least one over it: ten times apart are other protocols."""
LARGEST_FACTOR_OF_HOSTS = 100.0
"""The same of libraries of host messages, whose software times were measured on no such host."""
FIXED = 1.0 + 1e-9
"""Range of what the rows say nothing of."""
SHARE_START = 0.8
LEAST_SHARE = 0.01
LAUNCH_START_S = 1e-6
MOST_LAUNCH_S = 200e-6
"""No method of timing adds more to a collective than a few launches, allocations and waits of the host."""
HOW = "least squares of logarithms over all rows together"
NOTHING_SAID = "no fitted row depends on it"
UNMOVED = 1e-6
"""Distance from 1 of a factor that is drawn there and that no row moves."""

Group = Literal["near", "far", "factor", "copy", "launch", "together", "ll", "span"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to be found; its logarithm is, but the exponent of the span itself.

    Attributes:
        drawn: whether it is drawn to its start.
    """

    group: Group
    name: str
    start: float
    low: float
    high: float
    drawn: bool = False

    def value(self, found: float) -> float:
        """The number of a vector's entry."""
        return float(found) if self.group == "span" else float(np.exp(found))

    def bounds(self) -> tuple[float, float, float]:
        """Start, lowest and highest entry of the vector."""
        if self.group == "span":
            return self.start, self.low, self.high
        low, start, high = np.log([self.low, self.start, self.high]).tolist()
        return start, low, high


@dataclass(frozen=True, slots=True)
class Parameters:
    """All numbers to be found, in the order of their vector."""

    all: tuple[Parameter, ...]
    note: str

    @staticmethod
    def of(
        cluster: Cluster, rows: Sequence[MeasuredCollective], kinds: Iterable[Kind], note: str, *, launches: bool
    ) -> Parameters:
        """Parameters that the rows depend on; ``kinds`` are those of the algorithms they may run."""
        known, inside = tuple(kinds), any(row.nodes == 1 for row in rows)
        by_hosts = cluster.collectives.messages is not None
        name_of = {kind: kind[0] if by_hosts else kind[1] for kind in known}
        found = _shares("near", (name for kind, name in name_of.items() if kind[3] > 1)) if inside else []
        found += _shares("far", (name for kind, name in name_of.items() if kind[2] > 1))
        most = LARGEST_FACTOR_OF_HOSTS if by_hosts else LARGEST_FACTOR
        found += [_factor(name, most if inside or name != "near_hop_factor" else FIXED) for name in FACTORS]
        between = any(row.nodes > 1 for row in rows)  # else hosts' copies and shares of their memory look alike
        found.append(_copy(cluster, 100.0 if (between if by_hosts else inside) else FIXED))
        found += _between(rows, known, by_hosts=by_hosts)
        sources = sorted({row.source for row in rows}) if launches else []
        found += [Parameter("launch", name, LAUNCH_START_S, 1e-10, MOST_LAUNCH_S) for name in sources]
        return Parameters(tuple(found), note)

    def in_group(self, group: Group) -> Iterator[tuple[int, Parameter]]:
        """Place and parameter of each of a group."""
        return ((place, one) for place, one in enumerate(self.all) if one.group == group)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Start, lowest and highest vector."""
        start, low, high = np.array([one.bounds() for one in self.all]).T
        return start, low, high

    @property
    def drawn(self) -> FloatArray:
        """Whether each is drawn to its start."""
        return np.array([one.drawn for one in self.all])

    def launches_s(self, vector: FloatArray, rows: Sequence[MeasuredCollective]) -> FloatArray | float:
        """Launch overhead of each row ``[rows]``, seconds; 0 where none is looked for."""
        known = {one.name: one.value(vector[place]) for place, one in self.in_group("launch")}
        return np.array([known[row.source] for row in rows]) if known else 0.0

    def fit_of(self, vector: FloatArray, used: Iterable[tuple[Group, str]] | None = None) -> FittedCollectives:
        """The spec's block for a vector.

        Args:
            used: shares to keep of a finished fit, whose factors say where no row moved them; all by default.
        """
        kept = None if used is None else set(used)

        def entries(group: Group, unit: str = "") -> dict[str, object]:
            return {
                one.name: self._entry(one.value(vector[place]), unit)
                if kept is None or group != "factor" or abs(one.value(vector[place]) - 1.0) >= UNMOVED
                else {"value": 1.0, "source": self.note, "grade": "assumed", "note": NOTHING_SAID}
                for place, one in self.in_group(group)
                if kept is None or group not in ("near", "far") or (group, one.name) in kept
            }

        return FittedCollectives.model_validate(
            {
                "near_fraction": entries("near"),
                "network_fraction": entries("far"),
                **entries("together"),
                **entries("ll"),
                **entries("span"),
                **entries("factor"),
                **entries("copy", "B/s"),
                "launch_s": entries("launch", "s"),
            }
        )

    def _entry(self, value: float, unit: str) -> dict[str, object]:
        text = f"{value!r} {unit}" if unit else value
        return {"value": text, "source": self.note, "grade": "derived", "note": HOW}


def _factor(name: str, most: float) -> Parameter:
    """A factor of latencies, from one over ``most`` to ``most``."""
    return Parameter("factor", name, 1.0, 1.0 / most, most, drawn=True)


def _shares(group: Group, names: Iterable[str]) -> list[Parameter]:
    return [Parameter(group, name, SHARE_START, LEAST_SHARE, 1.0, drawn=True) for name in sorted(set(names))]


def _between(rows: Sequence[MeasuredCollective], kinds: Sequence[Kind], *, by_hosts: bool) -> Iterator[Parameter]:
    """Losses of links between nodes: with links inside busy too, with LL, with the number of nodes."""
    far = [kind for kind in kinds if kind[2] > 1]
    if far and not by_hosts:
        if _beside_and_alone(rows):
            yield Parameter("together", "together_fraction", 0.95, LEAST_SHARE, 1.0, drawn=True)
        yield Parameter("ll", "ll_fraction", 1.0, LEAST_SHARE, 1.0, drawn=True)
    if len({kind[2] for kind in far}) > 1 and any(kind[1] != "ring" for kind in far):
        yield Parameter("span", "span_exponent", 0.0, 0.0, MOST_SPAN, drawn=True)


def _beside_and_alone(rows: Sequence[MeasuredCollective]) -> bool:
    """Whether links were timed both with all others busy and alone."""
    both = any(row.nodes > 1 and row.ranks_per_node > 1 for row in rows)
    return both and any(row.nodes == 1 or row.ranks_per_node == 1 for row in rows)


def _copy(cluster: Cluster, most: float) -> Parameter:
    """Rate at which a member's own part is copied, B/s: by a kernel, or by a thread of the host."""
    if cluster.collectives.messages is not None:
        rate = cluster.collectives.messages.copy_bytes_per_s.value
    else:
        gpu = cluster.node.accelerator
        rate = gpu.memory_bytes_per_s.value * gpu.achieved.stream_fraction.value / 2  # read and written
    return Parameter("copy", "copy_bytes_per_s", rate, rate / most, rate * most, drawn=True)
