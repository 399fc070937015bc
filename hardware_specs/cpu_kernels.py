"""What kernels take on a CPU, as ``dlrmsim calibrate host`` fits it."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, sqrt
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator

from hardware_specs.bounds import Amount, Name, Number
from inputs.errors import nearest_name
from inputs.model import Strict, problem
from inputs.quantities import Seconds
from inputs.sourced import Grade, Sourced

KernelClass = Literal[
    "gemm", "batched", "lookup", "update", "stream", "columns", "transpose", "gather", "scatter", "bucketize", "recat",
    "optimizer", "host",
]  # fmt: skip
"""Kinds of kernels; `simulator.compute.cpu_amounts` says which operators they are, and what costs count."""


MOST_SPREAD = 0.2
"""Of work that only chance makes differ: four standard deviations are less than all of it."""
MOST_OVERLAP = 0.9
"""Of a collective's data: something is left for the last member."""
MOST_TOGETHER = 2.0
"""What two take at once takes no longer than one after the other."""
PASSING = "passing"
"""Piece of the yardstick (`trainer.passing`): how far cores are from each other."""
MOST_SYSTEM = 0.2
"""Of what kernels work: more than that is no system's."""
SPREAD_WORK_S = 0.1
"""Work of a core in an iteration, seconds, that spreads are told of."""
LASTING_S = 5.0
"""What makes a core faster or slower lasts up to so many seconds, each octave of time alike: in longer iterations cores
differ less (`docs/decisions/105`; ``python -m benchmarks paces`` shows it of a machine)."""
LEAST_WORK_S = 1e-3
"""Less work counts as this: nothing is known of it."""
_PASS = frozenset({"call", "byte", "core_miss_byte", "shared_miss_byte"})
_PRODUCT = frozenset({"call", "row", "left", "right", "result", "core_miss_byte", "shared_miss_byte"})
_ROWS = frozenset({"call", "lookup", "core_miss", "core_miss_byte", "shared_miss", "shared_miss_byte"})
AMOUNTS: Mapping[KernelClass, frozenset[str]] = {
    "gemm": _PRODUCT | {"flop", "tail", "transposed"},
    "batched": _PRODUCT | {"product", "vector", "short_transposed"},
    "lookup": _ROWS | {"byte", "output_byte"},
    "update": _ROWS
    | {"sorted_shared_miss_byte", "gathered_byte", "gradient_core_miss_byte"}
    | {"row", "state_row", "weight_byte", "state_weight_byte", "state_byte"},
    "stream": _PASS,
    "columns": _PASS | {"piece", "part"},
    "transpose": _PASS,
    "gather": _PASS,
    "scatter": _PASS,
    "bucketize": _PASS,
    "recat": frozenset({"call", "shift", "index_byte", "index_core_miss_byte", "bag_byte"}),
    "optimizer": _PASS | {f"state_{name}" for name in _PASS},
    "host": frozenset({"launch", "cold_launch", "collective", "issue", "issue_byte"}),
}
"""What each kind of kernel is counted in; a cost of anything else would count for nothing, and is refused."""


def of_longer(work_s: float) -> float:
    """By how much cores differ that work so long in an iteration, relative to `SPREAD_WORK_S`: as octaves' root."""
    octaves, told = (log2(1.0 + LASTING_S / max(each_s, LEAST_WORK_S)) for each_s in (work_s, SPREAD_WORK_S))
    return sqrt(octaves / told)


class Followed(NamedTuple):
    """How closely jobs go with the yardstick: powers of how much slower it tells that the machine is, 0 to 1.

    A yardstick is laid on now and then, and its pieces are not the job: what it tells is partly of itself
    (`docs/decisions/130`).
    """

    work: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Of all but lookups."""
    lookups: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Of lookups, which go with other pieces."""


class KernelCosts(Strict):
    """Costs of one kind of kernel: its time is the sum of amounts times these."""

    seconds_per: dict[Name, Annotated[Seconds, Field(ge=0)]]
    """Seconds for one of each amount (``call``, ``flop``, ``byte``...); an amount that is absent costs nothing."""
    rows: Number
    """Measurements it was fitted on."""
    median_error_pct: Annotated[float, Field(ge=0)]
    """Median over them of the absolute error of the fit."""
    worst_error_pct: float
    """The worst of these errors."""
    noise_pct: Annotated[float, Field(ge=0)]
    """Median over them of half the spread of the middle half of repeats."""


class CpuKernels(Strict):
    """All kinds of kernels, run by one number of threads."""

    threads: Number
    source: Name
    grade: Grade
    note: str = ""
    core_cache_bytes: Sourced[Amount]
    """Last cache that a core has for itself (L2)."""
    shared_cache_bytes: Sourced[Amount]
    """Cache that cores share (L3)."""
    collective_cores: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What a collective takes of the cores of a member: CPU time over time, at most 1."""
    collective_slower: Annotated[float, Field(ge=1)] = 1.0
    """By how much longer a collective's data are under way within an iteration than alone."""
    collective_latency_cores: Annotated[float, Field(ge=0)] = 0.0
    """Seconds of a core that a member's threads work for each second in which no data of a collective move: posting
    messages, being woken up. Told by specs from before ``posting_s``."""
    posting_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """What the threads of each collective take of the core of a rank that issues it, then: they wake up and post
    messages. Of ranks with cores of their own; with it no core is taken for ``collective_latency_cores``."""
    system_share: Annotated[float, Field(ge=0, le=MOST_SYSTEM)] = 0.0
    """Seconds for which something else has the core for each second that kernels of one thread work: interrupts,
    threads of the system; 0 where costs hold it (of several threads)."""
    kernel_share_posting: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Part of a core that a kernel keeps beside a collective of which no data move, where threads ask for it then."""
    kernel_share_moving: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The same while its data move."""
    call_lost_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """What a call that issues a collective loses of its core to the threads that do it, of ranks with cores of their
    own: they are woken up."""
    call_lost_share: Annotated[float, Field(ge=0)] = 0.0
    """The same for each second that the collective's data are under way alone: they are sent."""
    shared_call_lost_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """As ``call_lost_s``, of ranks that take turns, while others on the core have work: one may have it next."""
    shared_call_lost_share: Annotated[float, Field(ge=0)] = 0.0
    """As ``call_lost_share``, of ranks that take turns, likewise."""
    after_call_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """Of what interrupts a rank with a core of its own between two waits, what does so right after each call that
    issues a collective: its threads wake up then. It lengthens nothing, it tells which kernel is longer."""
    shared_after_call_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """As ``after_call_s``, of ranks that take turns: another one may have the core next."""
    overlap: Annotated[float, Field(ge=0, le=MOST_OVERLAP)] = 0.0
    """Part of a collective's data that have moved before its last member has come, of ranks with cores of their own:
    each sends them when it comes."""
    shared_overlap: Annotated[float, Field(ge=0, le=MOST_OVERLAP)] = 0.0
    """Part of a collective's data that have moved before its last member has come, of ranks that take turns: those on a
    core cannot come at once."""
    collective_wait_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """What each collective takes longer within an iteration than alone, in the mean: sleeping threads are woken up.
    Where ranks have cores of their own one in eight takes eight times that, the others nothing."""
    threads_spread: Annotated[float, Field(ge=0, le=1)] = 0.0
    """By how much chance makes ranks differ in an iteration, for each second that threads of collectives work on a core
    in it, standard deviation: which kernels they interrupt is chance. On top of ``work_spread``."""
    work_spread: Annotated[float, Field(ge=0, le=MOST_SPREAD)] = 0.0
    """By how much chance makes cores work faster or slower in an iteration in which they work for `SPREAD_WORK_S`, so
    that ranks wait for others where they meet: standard deviation over mean."""
    turn_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """How long a rank keeps a core that another one wants, too: the system's time slice, or a part of it, since threads
    of collectives that wake up cut it short; 0: each goes on at a part of its speed all the time."""
    shared_slower: Annotated[float, Field(ge=1)] = 1.0
    """By how much longer kernels take on a core on which several ranks take turns: each finds the other's data."""
    shared_posting_s: Annotated[Seconds, Field(ge=0)] | None = None
    """What the threads of each collective take of a rank's core before its data move, of ranks that take turns: a
    switch between threads comes on top of ``posting_s``. None: as that says; with it, too, no core is taken for
    ``collective_latency_cores``."""
    shared_wait_s: Annotated[Seconds, Field(ge=0)] = 0.0
    """As ``collective_wait_s``, of ranks that take turns: they and their collectives' threads wait for a core, too."""
    lookups_together: Annotated[float, Field(ge=1, le=MOST_TOGETHER)] = 1.0
    """By how much longer lookups of tables take while those of all other ranks with cores of their own are under way,
    where what cores pass to each other is near (``passing_s``): they share what a cache delivers."""
    passing_s: tuple[Annotated[Seconds, Field(gt=0)], Annotated[Seconds, Field(gt=0)]] | None = None
    """What the yardstick's ``passing`` takes between cores that are near each other, and far: the host of a virtual
    machine moves its cores. None: they are always as they were."""
    followed: Followed = Followed()
    """How closely what ranks with cores of their own do goes with the yardstick."""
    shared_followed: Followed = Followed()
    """The same of ranks that take turns."""
    yardstick_s: dict[Name, Annotated[Seconds, Field(gt=0)]] = Field(default_factory=dict)
    """What the pieces of the trainer's yardstick took meanwhile: how fast the machine was then."""
    costs: dict[KernelClass, KernelCosts]

    def together(self, passing_s: float | None = None) -> float:
        """By how much longer lookups of all ranks take at once, as ``lookups_together``.

        Args:
            passing_s: what the yardstick's ``passing`` takes; None: as usual.
        """
        passing_s = self.yardstick_s.get(PASSING) if passing_s is None else passing_s
        if self.passing_s is None or passing_s is None:
            return self.lookups_together
        near_s, far_s = self.passing_s
        near = min(1.0, max(0.0, (far_s - passing_s) / (far_s - near_s)))
        return 1.0 + near * (self.lookups_together - 1.0)

    def call_lost(self, moving_s: float, *, turns: bool) -> float:
        """Seconds that the call of a collective loses of its core.

        Args:
            moving_s: for how long the collective's data are under way alone.
            turns: whether ranks take turns; then it is what a call loses while others have work.
        """
        if turns:
            return self.shared_call_lost_s + self.shared_call_lost_share * moving_s
        return self.call_lost_s + self.call_lost_share * moving_s

    def threads_s(self, calls: float, moving_s: float, *, turns: bool) -> float:
        """What threads of collectives work on a rank's core, seconds.

        Args:
            calls: how many collectives there are.
            moving_s: for how long their data would be under way alone, all together.
            turns: whether ranks take turns.
        """
        posting_s = self.shared_posting_s if turns and self.shared_posting_s is not None else self.posting_s
        return calls * posting_s + self.collective_cores * self.collective_slower * moving_s

    def spread(self, work_s: float, threads_s: float = 0.0) -> float:
        """Standard deviation over mean of the pace of cores.

        Args:
            work_s: what ranks work on each in an iteration.
            threads_s: what threads of their collectives work there meanwhile.
        """
        by_threads = self.threads_spread * threads_s / max(work_s, LEAST_WORK_S)
        return min(MOST_SPREAD, by_threads + self.work_spread * of_longer(work_s))

    @field_validator("passing_s")
    @classmethod
    def _near_before_far(cls, passing_s: tuple[float, float] | None) -> tuple[float, float] | None:
        if passing_s is not None and passing_s[0] >= passing_s[1]:
            raise problem("what is near is not nearer than what is far", expected="the lesser time first")
        return passing_s

    @field_validator("costs")
    @classmethod
    def _of_what_is_counted(cls, costs: dict[KernelClass, KernelCosts]) -> dict[KernelClass, KernelCosts]:
        """A cost has the name of an amount."""
        for kind, of in costs.items():
            for name in of.seconds_per:
                if name not in AMOUNTS[kind]:
                    raise problem(
                        f"no {kind} is counted in {name}",
                        expected=f"one of {', '.join(sorted(AMOUNTS[kind]))}",
                        nearest=nearest_name(name, AMOUNTS[kind]),
                        key=f"{kind}.seconds_per.{name}",
                    )
        return costs
