"""The bound of the iteration: the class whose improvement by 10 % shortens it most, found by re-runs.

Single classes are resources (NICs, HBM...). Joint classes are parts of an iteration (communication, computation...):
each is improved as a whole, so that time which is spread over several resources counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

IMPROVEMENT = 1.1
"""Factor by which one class is improved in each re-run."""

NEGLIGIBLE_GAIN = 1e-3
"""Gains below the 0.1 % by which two iterations of a settled run may differ say nothing."""

SINGLE_CLASSES: Mapping[str, str] = {
    "GEMM": "GEMMs 10 % faster",
    "HBM": "HBM 10 % faster",
    "NVLink": "NVLink 10 % faster",
    "NIC": "NICs 10 % faster",
    "spine": "spine links 10 % faster",
    "site": "links between sites 10 % faster",
    "messages": "starts, hops and posts of messages 10 % faster",
    "PCIe/DDR": "PCIe and DDR 10 % faster",
    "SSD": "SSDs 10 % faster",
    "host": "the host 10 % faster",
    "input": "the input pipeline 10 % faster",
    "imbalance": "every rank's load 10 % closer to the mean",
}
"""Each single class, and its improvement in words."""


@dataclass(frozen=True, slots=True)
class JointClass:
    """A joint class.

    Attributes:
        subject: its name as the subject of a sentence, with the verb.
        improvement: its improvement in words.
        improved: single or whole classes that are improved at once.
        members: single classes that its time is spread over.
        category: its category of the critical path; None for a part of one or of several categories.
    """

    subject: str
    improvement: str
    improved: tuple[str, ...]
    members: tuple[str, ...] = ()
    category: str | None = None


JOINT_CLASSES: Mapping[str, JointClass] = {
    "communication": JointClass(
        "Communication bounds", "all collectives 10 % faster", ("communication",),
        ("NIC", "NVLink", "spine", "site", "messages", "PCIe/DDR"), "comm",
    ),
    "compute": JointClass(
        "Computation bounds", "all kernels 10 % faster", ("compute",), ("GEMM", "HBM", "PCIe/DDR"), "compute"
    ),
    "memory": JointClass(
        "Memory bandwidth bounds", "HBM, DDR, PCIe and SSDs 10 % faster",
        ("HBM", "PCIe/DDR", "SSD"), ("HBM", "PCIe/DDR", "SSD"),
    ),
    "host": JointClass("The host, which launches kernels, bounds", "the host 10 % faster", ("host",), (), "host"),
    "input": JointClass("The input pipeline bounds", "the input pipeline 10 % faster", ("input",), (), "input"),
    "imbalance": JointClass(
        "Uneven load between ranks bounds", "every rank's load 10 % closer to the mean", ("imbalance",)
    ),
}  # fmt: skip
"""The joint classes."""

HOST_OF_CPUS = "The framework's work between kernels bounds"
"""Subject of the class ``host`` where ranks are CPUs."""

BOUND_RUNS = 1 + len(SINGLE_CLASSES) + len(JOINT_CLASSES.keys() - SINGLE_CLASSES.keys())
"""Runs that find the bound: one without improvement, and one for each class."""

PART_OF: Mapping[str, str] = {"memory": "compute"}
"""Joint classes that are mostly part of another."""

NAMED_PART = 0.9
"""Fraction of the best class's gain from which a part of that class is named instead."""

SPREAD_PART = 0.1
"""Fraction of a joint class's gain below which a member is not named."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Gain from improving one class.

    Attributes:
        resource_class: one of `SINGLE_CLASSES` or `JOINT_CLASSES`.
        iteration_time_s: iteration time with that class improved by 10 %.
        gain: the part of the iteration time saved (0.05: 5 % shorter; negative: longer).
    """

    resource_class: str
    iteration_time_s: float
    gain: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The gains of all classes, best first; ties keep the order of the classes.

    Attributes:
        iteration_time_s: iteration time without improvement.
        gains: gains of the single classes.
        joint: gains of the joint classes.
        path_shares: share of the critical path of the joint classes that have one, 0 to 1.
        on_cpus: whether ranks are CPUs, which run kernels themselves and launch none.
    """

    iteration_time_s: float
    gains: tuple[Gain, ...]
    joint: tuple[Gain, ...]
    path_shares: Mapping[str, float]
    on_cpus: bool = False

    @property
    def winner(self) -> Gain | None:
        """The single class that gains most; None when none gains 0.1 %."""
        return self.gains[0] if self.gains[0].gain >= NEGLIGIBLE_GAIN else None

    @property
    def runner_up(self) -> Gain | None:
        """The next single class; None when there is no winner."""
        return self.gains[1] if self.winner else None

    @property
    def bounding(self) -> Gain | None:
        """The joint class that bounds the iteration; None when none gains 0.1 %.

        It is the class with the largest gain, or a part of that class with about the same gain, above the gains of all
        other classes.
        """
        best, *others = self.joint
        if best.gain < NEGLIGIBLE_GAIN:
            return None
        parts = [g for g in others if PART_OF.get(g.resource_class) == best.resource_class]
        beside = max(g.gain for g in others if g not in parts)
        return next((g for g in parts if g.gain >= max(beside, NAMED_PART * best.gain)), best)

    @property
    def next_bounding(self) -> Gain | None:
        """The best joint class beside `bounding`: neither a part of it, nor the class that it is part of."""
        bounding = self.bounding
        if bounding is None:
            return None
        name = bounding.resource_class
        related = {name, PART_OF.get(name), *(part for part, whole in PART_OF.items() if whole == name)}
        return next(g for g in self.joint if g.resource_class not in related)

    @property
    def spread(self) -> tuple[Gain, ...]:
        """Single classes over which the bounding class is spread, largest gain first."""
        if self.bounding is None:
            return ()
        members = JOINT_CLASSES[self.bounding.resource_class].members
        least = max(NEGLIGIBLE_GAIN, SPREAD_PART * self.bounding.gain)
        return tuple(g for g in self.gains if g.resource_class in members and g.gain >= least)

    @property
    def finding(self) -> str:
        """The bound of the iteration in one plain sentence."""
        bounding, beside = self.bounding, self.next_bounding
        if bounding is None or beside is None:
            return (
                "Nothing bounds the iteration: no class shortens it by 0.1 % when improved by 10 %, "
                "so fixed delays set its time."
            )
        joint = JOINT_CLASSES[bounding.resource_class]
        subject = HOST_OF_CPUS if self.on_cpus and bounding.resource_class == "host" else joint.subject
        share = self.path_shares.get(bounding.resource_class)
        path = "" if share is None else f"it is {100 * share:.0f} % of the critical path, and "
        saved = f"{path}{joint.improvement} would save {100 * bounding.gain:.1f} %{self._spread_in_words}"
        if beside.gain < NEGLIGIBLE_GAIN:
            return f"{subject} the iteration: {saved}; no other class would save anything."
        return f"{subject} the iteration: {saved}; next, {beside.resource_class}, {100 * beside.gain:.1f} %."

    @property
    def _spread_in_words(self) -> str:
        """The members of the bounding class and their gains."""
        names = [f"{g.resource_class} ({100 * g.gain:.1f} %)" for g in self.spread]
        if not names:
            return ""
        if len(names) == 1:
            return f", most of it by {names[0]}"
        return f", spread over {', '.join(names[:-1])} and {names[-1]}"


def find_bound(
    iteration_time_s: Callable[[Mapping[str, float]], float],
    path_shares: Mapping[str, float] | None = None,
    *,
    on_cpus: bool = False,
    absent: Collection[str] = (),
) -> Bound:
    """Re-run with each single and each joint class improved by 10 %.

    Args:
        iteration_time_s: iteration time in seconds of a run with the given classes improved by the given factors;
            called once with none, then once per class.
        path_shares: share of the critical path of each of its categories, 0 to 1.
        on_cpus: whether ranks are CPUs.
        absent: single classes that the machine lacks, without a re-run.
    """
    base_s = iteration_time_s({})

    def gain(name: str, improved: tuple[str, ...]) -> Gain:
        time_s = iteration_time_s(dict.fromkeys(improved, IMPROVEMENT))
        return Gain(name, time_s, 1.0 - time_s / base_s if base_s > 0 else 0.0)

    single = {name: gain(name, (name,)) for name in SINGLE_CLASSES if name not in absent}
    joint = [single[name] if name in single else gain(name, of.improved) for name, of in JOINT_CLASSES.items()]
    categories = {name: of.category for name, of in JOINT_CLASSES.items()}
    shares = {name: (path_shares or {}).get(category) for name, category in categories.items() if category}
    return Bound(
        base_s,
        _best_first(single.values()),
        _best_first(joint),
        {name: share for name, share in shares.items() if share is not None},
        on_cpus,
    )


def _best_first(gains: Iterable[Gain]) -> tuple[Gain, ...]:
    return tuple(sorted(gains, key=lambda g: -g.gain))
