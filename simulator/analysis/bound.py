"""The bound of the iteration: the resource class whose improvement by 10 % shortens it most, found by re-runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

IMPROVEMENT = 1.1
"""Factor by which one class is improved in each re-run."""

NEGLIGIBLE_GAIN = 1e-3
"""Gains below the 0.1 % by which two iterations of a settled run may differ say nothing."""

IN_WORDS: Mapping[str, tuple[str, str]] = {
    "GEMM": ("Matrix multiplication (GEMM) bounds", "GEMMs 10 % faster"),
    "HBM": ("GPU memory bandwidth (HBM) bounds", "HBM 10 % faster"),
    "NVLink": ("The links between GPUs of a node (NVLink) bound", "NVLink 10 % faster"),
    "NIC": ("The network cards (NIC) bound", "NICs 10 % faster"),
    "spine": ("The network's spine bounds", "spine links 10 % faster"),
    "PCIe/DDR": ("The host's links and memory (PCIe, DDR) bound", "PCIe and DDR 10 % faster"),
    "host": ("The host, which launches kernels and posts network messages, bounds", "the host 10 % faster"),
    "input": ("The input pipeline bounds", "the input pipeline 10 % faster"),
    "imbalance": ("Uneven load between ranks bounds", "every rank's load 10 % closer to the mean"),
}
"""Each class as the subject of a sentence, and its improvement."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Gain from improving one resource class.

    Attributes:
        resource_class: one of `IN_WORDS`.
        iteration_time_s: iteration time with that class improved by 10 %.
        gain: the part of the iteration time saved (0.05: 5 % shorter; negative: longer).
    """

    resource_class: str
    iteration_time_s: float
    gain: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The gains of all classes, best first.

    Attributes:
        iteration_time_s: iteration time without improvement.
        gains: one or more, largest gain first; ties keep the order the classes were given in.
    """

    iteration_time_s: float
    gains: tuple[Gain, ...]

    @property
    def winner(self) -> Gain | None:
        """The class that bounds the iteration; None when no class gains more than 0.1 %."""
        return self.gains[0] if self.gains[0].gain >= NEGLIGIBLE_GAIN else None

    @property
    def runner_up(self) -> Gain | None:
        """The next class; None when there is no winner or no other class."""
        return self.gains[1] if self.winner and len(self.gains) > 1 else None

    @property
    def finding(self) -> str:
        """The bound of the iteration in one plain sentence."""
        if self.winner is None:
            return (
                "No single resource class bounds the iteration: none shortens it by 0.1 % when improved by 10 %, "
                "so fixed latencies or several classes at once set its time."
            )
        subject, improvement = IN_WORDS[self.winner.resource_class]
        sentence = f"{subject} the iteration: with {improvement} it would take {100 * self.winner.gain:.1f} % less time"
        if self.runner_up is None:
            return f"{sentence}."
        if self.runner_up.gain < NEGLIGIBLE_GAIN:
            return f"{sentence}; no other class would gain anything."
        second = self.runner_up
        return f"{sentence}; the next class, {second.resource_class}, would save {100 * second.gain:.1f} %."


def find_bound(
    iteration_time_s: Callable[[Mapping[str, float]], float], classes: Sequence[str] = tuple(IN_WORDS)
) -> Bound:
    """Re-run with each class improved by 10 %.

    Args:
        iteration_time_s: iteration time in seconds of a run with the given classes improved by the given factors;
            called once with none, then once per class.
        classes: the classes to try.

    Raises:
        ValueError: there is no class, or one is unknown.
    """
    unknown = [c for c in classes if c not in IN_WORDS]
    if unknown or not classes:
        raise ValueError(f"resource classes {unknown or 'none given'}: expected some of {list(IN_WORDS)}")
    base_s = iteration_time_s({})
    times_s = {c: iteration_time_s({c: IMPROVEMENT}) for c in classes}
    gains = [Gain(c, time_s, 1.0 - time_s / base_s if base_s > 0 else 0.0) for c, time_s in times_s.items()]
    return Bound(base_s, tuple(sorted(gains, key=lambda g: -g.gain)))
