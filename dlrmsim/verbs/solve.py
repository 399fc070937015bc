"""``solve``: the value of a key with which a scenario has a known throughput."""

from __future__ import annotations

from collections.abc import Sequence

from dlrmsim.verbs.what import Name
from scenarios import solve as search
from scenarios.progress import Progress, Silent
from scenarios.solve import Solution as SolveResult

__all__ = ["SolveResult", "solve"]


def solve(
    what: Name,
    *,
    key: str,
    between: str | tuple[float, float],
    throughput: float,
    settings: Sequence[str] = (),
    progress: Progress | None = None,
) -> SolveResult:
    """Halve a range of values until a scenario has a throughput, which must rise or fall all over the range.

    Its ``found`` is None if no value of the range gives the throughput.

    Args:
        key: key of a number in it, such as a cache hit rate, a bandwidth or a number of cores.
        between: lowest and highest value: two numbers, or text such as ``50 GB/s,400 GB/s``.
        throughput: samples per second to reach.
        settings: further ``KEY=VALUE``.

    Raises:
        InputError: the range is empty, or the scenario is wrong at one of its values.
        InfeasibleError: the job does not fit at one of them.
    """
    values = search.parse_range(between) if isinstance(between, str) else search.SearchRange(*between)
    return search.solve(what, key, values, throughput, settings, progress or Silent())
