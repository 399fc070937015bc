"""Warnings of a sweep: equal warnings of all sizes as one note, with the share of the task time at each size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.lowering.result import SHARE_IN_WORDS

DOUBTFUL = 0.1
"""Share of the task time from which a warning is printed with the bound: a tenth may exchange bound and runner-up."""

LISTED = 4
"""Maximum number of sizes that are all listed; of more sizes the first and the last are listed."""

_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A warning of some sizes.

    Attributes:
        text: the warning of the largest size.
        shares: share of the task time that it concerns, by world size; None without a share in the warning.
    """

    text: str
    shares: Mapping[int, float | None]

    @property
    def doubtful(self) -> bool:
        """Whether the warning concerns much of the task time at a size."""
        return any((share or 0.0) >= DOUBTFUL for share in self.shares.values())

    def words(self) -> str:
        """``text: 0.3 % of the task time at 64 GPUs, 51.0 % at 768``."""
        sizes = list(self.shares)
        chosen = sizes if len(sizes) <= LISTED else [sizes[0], sizes[-1]]
        known = [(size, self.shares[size]) for size in chosen]
        if any(share is None for _, share in known):
            listed = (", " if len(sizes) <= LISTED else " to ").join(f"{size:,}" for size in chosen)
            return f"{self.text} (at {listed} GPUs)"
        parts = [f"{100 * (share or 0.0):.1f} % at {size:,}" for size, share in known]
        parts[0] = f"{100 * (known[0][1] or 0.0):.1f} % of the task time at {known[0][0]:,} GPUs"
        return f"{self.text}: {(', ' if len(sizes) <= LISTED else ' to ').join(parts)}"


def size_notes(warnings: Mapping[int, Sequence[str]]) -> list[SizeNote]:
    """Warnings by world size, ascending, as notes; warnings that differ only in numbers become one note."""
    found: dict[str, SizeNote] = {}
    for size, texts in warnings.items():
        for warning in texts:
            match = SHARE_IN_WORDS.search(warning)
            text = warning[: match.start()] if match else warning
            alike = _NUMBER.sub("#", text)
            earlier = found[alike].shares if alike in found else {}
            found[alike] = SizeNote(text, {**earlier, size: float(match[1]) / 100 if match else None})
    return list(found.values())
