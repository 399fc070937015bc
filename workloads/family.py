"""Workload families: the one interface through which a kind of training job reaches the simulator.

A family has settings of its own and makes a `Workload` of them; everything after that, from the check of memory to the
report, knows workloads only. What is special to a family, such as where a DLRM's embedding tables go, is decided before
its workload exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from inputs.model import Strict
from simulator.program import TaskGraph
from workloads.graph.memory import MemoryUse


class Model(Strict):
    """A trained model as a file describes it; a family adds what it is made of.

    Attributes:
        name: equal to the file's name.
        title: one line for people.
    """

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Headline:
    """Unit of throughput, and the amount that all ranks process in an iteration.

    Attributes:
        unit: a plural noun, such as ``samples`` or ``images``; part of keys such as ``throughput_samples_per_s``.
    """

    unit: str
    per_iteration: int


@runtime_checkable
class RepeatingWorkload(Protocol):
    """A workload whose memory knows of tasks that a transformation lets run again."""

    def memory_note(self) -> str | None:
        """Effect of such tasks that is left out; None: none is."""
        ...


class Workload(Protocol):
    """A job of a family, placed on its ranks; `workloads.dlrm.family.DlrmWorkload` is one."""

    def graph(self) -> TaskGraph:
        """The task graph of one iteration on all ranks.

        Raises:
            InputError: the settings contradict each other.
        """
        ...

    def memory(self) -> MemoryUse:
        """Bytes that every rank keeps.

        Raises:
            InputError: the settings contradict each other.
        """
        ...

    @property
    def headline(self) -> Headline:
        """The throughput's unit and amount."""
        ...
