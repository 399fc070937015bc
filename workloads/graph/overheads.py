"""Host overheads of operators, in five parts, as profiles of frameworks have them (Lin et al., HiPC 2021, TPDS 2025).

The host spends T1 between an operator and the one before, T2 before the first launch of the operator, T4 in each
launch, T5 between two launches and T3 after the last one. An operator with k launches takes
``T1 + T2 + k T4 + (k - 1) T5 + T3`` of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from inputs.model import Strict, problem
from inputs.quantities import Quantity
from simulator.operators import HostWork
from workloads.graded import Graded

SHARED = "*"
"""Key of what holds for operators and calls that have no entry of their own."""

LAUNCH_CALL, COPY_CALL = "cudaLaunchKernel", "cudaMemcpyAsync"
"""Runtime calls that start a kernel, a copy."""

HostTime = Annotated[float, Quantity("s", 0.0, 1.0)]
"""Time of a host for one kernel, operator or feature: at most 1 s."""

Overhead: TypeAlias = Graded[HostTime]
PARTS = ("t1", "t2", "t3", "t5")
"""The parts that operators have; T4 belongs to the call."""


class OperatorOverheads(Strict):
    """Overheads of one operator; those left out are the shared ones.

    Attributes:
        t1: host time between the operator and the one before.
        t2: from its begin to its first launch.
        t3: from the end of its last launch to its own.
        t5: between two of its launches.
        launches: all launches of the operator, where they differ from the kernels that the generator counts.
    """

    t1: Overhead | None = None
    t2: Overhead | None = None
    t3: Overhead | None = None
    t5: Overhead | None = None
    launches: Graded[Annotated[int, Field(ge=1, le=1_000_000)]] | None = None


class Overheads(Strict):
    """Overheads of all operators.

    Attributes:
        t4: runtime call -> time of it; ``*``: of any other.
        operators: operator -> its overheads; ``*``: of any other, which has all parts.
    """

    t4: dict[str, Overhead]
    operators: dict[str, OperatorOverheads]

    @model_validator(mode="after")
    def _shared_is_complete(self) -> Self:
        """Every operator and call finds a value."""
        if SHARED not in self.t4:
            raise problem("no shared time of a call", expected=f"a key '{SHARED}'", key="t4")
        shared = self.operators.get(SHARED)
        missing = [part for part in PARTS if shared is None or getattr(shared, part) is None]
        if missing:
            expected = f"'{SHARED}' with {', '.join(PARTS)}"
            raise problem(f"the shared overheads lack {', '.join(missing)}", expected=expected, key="operators")
        return self

    def seconds(self, operator: str, part: str) -> float:
        """One part of an operator's overheads, seconds; ``part``: one of `PARTS`."""
        own = self.operators.get(operator)
        found: Overhead | None = None if own is None else getattr(own, part)
        if found is None:
            found = getattr(self.operators[SHARED], part)
        return 0.0 if found is None else found.value

    def call_s(self, call: str) -> float:
        """T4: time of a runtime call, seconds."""
        return self.t4.get(call, self.t4[SHARED]).value

    def launches(self, operator: str, counted: int) -> int:
        """Launches of an operator, of which the generator counts so many kernels."""
        own = self.operators.get(operator)
        return counted if own is None or own.launches is None else own.launches.value


class HostCosts:
    """Host time of the launches of an iteration in their order: by operator where there are overheads, else the same.

    The end of an operator, T3, delays what the host does next and not its own kernels: it is in the cost of the next
    launch.
    """

    def __init__(self, operator_s: float, overheads: Overheads | None = None, factor: float = 1.0) -> None:
        """Start an iteration; ``factor`` multiplies all overheads, ``operator_s`` stands where there are none."""
        self._operator_s, self._overheads, self._factor = operator_s, overheads, factor
        self._open = SHARED
        self._after_s = 0.0

    def launch(
        self, operators: Sequence[str], launches: int, *, call: str = LAUNCH_CALL, continues: bool = False
    ) -> HostWork:
        """Cost up to the end of the last launch of operators, which share the launches evenly.

        Args:
            operators: names; ``*``: any.
            continues: whether the last operator launches these too, instead; they are among its own if it states them.
        """
        overheads = self._overheads
        if overheads is None:
            return HostWork(launches, self._operator_s)
        if continues:
            more = overheads.launches(self._open, launches + 1) - overheads.launches(self._open, 1)
            return HostWork(
                seconds=self._factor * more * (overheads.call_s(call) + overheads.seconds(self._open, "t5"))
            )
        spent_s = self._after_s
        each = max(1, round(launches / len(operators)))
        for number, operator in enumerate(operators):
            count = overheads.launches(operator, each)
            parts_s = {part: overheads.seconds(operator, part) for part in PARTS}
            before_s = parts_s["t1"] + parts_s["t2"] + count * overheads.call_s(call) + (count - 1) * parts_s["t5"]
            ended_s = parts_s["t3"] if number < len(operators) - 1 else 0.0
            spent_s += before_s + ended_s
        self._open, self._after_s = operators[-1], overheads.seconds(operators[-1], "t3")
        return HostWork(seconds=self._factor * spent_s)

    def end_s(self) -> float:
        """Time that the last operator takes after its last launch, seconds; it ends with the call."""
        after_s, self._after_s = self._after_s, 0.0
        return self._factor * after_s
