"""Warnings of a line of a sweep: equal warnings of all points as one note, with the share of the task time at each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.lowering.result import SHARE_IN_WORDS

DOUBTFUL = 0.1
"""Share of the task time from which a warning is printed with the bound: a tenth may exchange bound and runner-up."""

LISTED = 4
"""Maximum number of points that are all listed; of more points the first and the last are listed."""

_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A warning of some points.

    Attributes:
        text: the warning of the last point.
        shares: share of the task time that it concerns, by value on the axis; None without a share in the warning.
        before: words before the first value.
        after: words after it.
    """

    text: str
    shares: Mapping[str, float | None]
    before: str = ""
    after: str = " GPUs"

    @property
    def doubtful(self) -> bool:
        """Whether the warning concerns much of the task time at a point."""
        return any((share or 0.0) >= DOUBTFUL for share in self.shares.values())

    def words(self) -> str:
        """``text: 0.3 % of the task time at 64 GPUs, 51.0 % at 768``."""
        ticks = list(self.shares)
        chosen = ticks if len(ticks) <= LISTED else [ticks[0], ticks[-1]]
        known = [(tick, self.shares[tick]) for tick in chosen]
        if any(share is None for _, share in known):
            listed = (", " if len(ticks) <= LISTED else " to ").join(chosen)
            return f"{self.text} (at {self.before}{listed}{self.after})"
        parts = [f"{100 * (share or 0.0):.1f} % at {tick}" for tick, share in known]
        (first, share), *_ = known
        parts[0] = f"{100 * (share or 0.0):.1f} % of the task time at {self.before}{first}{self.after}"
        return f"{self.text}: {(', ' if len(ticks) <= LISTED else ' to ').join(parts)}"


def size_notes(warnings: Mapping[str, Sequence[str]], before: str = "", after: str = " GPUs") -> list[SizeNote]:
    """Warnings by value on the axis, along it, as notes; warnings that differ only in numbers become one note."""
    found: dict[str, SizeNote] = {}
    for tick, texts in warnings.items():
        for warning in texts:
            match = SHARE_IN_WORDS.search(warning)
            text = warning[: match.start()] if match else warning
            alike = _NUMBER.sub("#", text)
            shares = {**(found[alike].shares if alike in found else {}), tick: float(match[1]) / 100 if match else None}
            found[alike] = SizeNote(text, shares, before, after)
    return list(found.values())
