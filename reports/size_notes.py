"""Warnings of a sweep: those of all sizes that say the same, with the share of the time that each size has of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.lowering.result import SHARE_IN_WORDS

DOUBTFUL = 0.1
"""Share of the task time from which a warning stands beside the verdict: a tenth moves the runner-up to the front."""

LISTED = 4
"""Sizes that are listed one by one; of more, the first and the last are."""

_NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A warning of some sizes.

    Attributes:
        text: the warning of the largest size.
        shares: share of the task time that it concerns, by world size; None where it does not say.
    """

    text: str
    shares: Mapping[int, float | None]

    @property
    def doubtful(self) -> bool:
        """Whether it concerns much of the time at a size."""
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
    """Warnings by world size, ascending, as notes: warnings that differ in numbers alone are one."""
    found: dict[str, SizeNote] = {}
    for size, texts in warnings.items():
        for warning in texts:
            match = SHARE_IN_WORDS.search(warning)
            text = warning[: match.start()] if match else warning
            alike = _NUMBER.sub("#", text)
            earlier = found[alike].shares if alike in found else {}
            found[alike] = SizeNote(text, {**earlier, size: float(match[1]) / 100 if match else None})
    return list(found.values())
