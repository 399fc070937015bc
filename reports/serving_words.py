"""Words on answered requests, for pages and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.numbers import counted, percent, rate_in_words, seconds


def load_words(serving: Mapping[str, Any]) -> str:
    """Rate, servers and their use: ``200 k requests/s, 7.9 % of the capacity of 8 servers...``."""
    work = serving["work"]
    return (
        f"{' '.join(rate_in_words(serving['requests_per_s'], 'requests'))}, {percent(serving['utilisation'])} of the "
        f"capacity of {counted(serving['servers'], 'servers')}: busy {percent(work['busy'])} of the time with "
        f"batches of {work['mean_batch']:,.3g} requests"
    )


def latency_span(serving: Mapping[str, Any], key: str) -> tuple[str, str]:
    """Latency percentile with batches as long as p10 and p90 of their time; ``without bound`` above the capacity."""
    low, high = (serving[name] for name in ("latency_p10", "latency_p90"))
    return tuple("without bound" if of is None else seconds(of[key]) for of in (low, high))  # type: ignore[return-value]
