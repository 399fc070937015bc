"""Replicas in step: instances of a call that replicas reach together run as one activity.

That is the same only where replicas are alike: all instances of a program's call take as long, and use links that they
share with as many others. Where one crosses nodes and another does not, replicas drift apart, and each instance is its
own. Another call at the same time may use the links of some replicas more than those of others; then all take as long
as the slowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.lowered import Phase
from simulator.network.blocks import Block
from simulator.operators import FloatArray
from simulator.program import IntArray, Program, SequencedCall

DECIMALS = 9
"""Decimals to which shares of links are compared: sums of the same shares in another order are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class InstancePhases:
    """Equal phases of the instances of a call, side by side.

    Attributes:
        usage: shares of the resources of one instance after the other ``[I * n]``.
        place: place of each of them in ``numbers``.
        numbers: resources that any instance uses, each once ``[L]``.
        asked: sum of the shares of each ``[L]``.
    """

    phases: tuple[Phase, ...]
    usage: FloatArray
    place: IntArray
    numbers: IntArray
    asked: FloatArray

    @staticmethod
    def of(phases: tuple[Phase, ...]) -> InstancePhases:
        """The phases of all instances."""
        resources = np.concatenate([phase.resources for phase in phases])
        usage = np.concatenate([phase.usage for phase in phases])
        numbers, place = np.unique(resources, return_inverse=True)
        asked: FloatArray = np.bincount(place, weights=usage, minlength=len(numbers)).astype(np.float64)
        return InstancePhases(phases, usage, place, numbers, asked)

    @property
    def alike(self) -> bool:
        """Whether the phases take as long, and use links that the others use as much, in any order."""
        if len({(p.latency_ps, p.work_ps, len(p.resources)) for p in self.phases}) > 1:
            return False
        met = _mixed(self.usage, self.asked[self.place]).reshape(len(self.phases), -1).sum(axis=1)
        return bool(np.all(met == met[0]))

    def joined(self) -> Phase:
        """All of them as one; where they ask for more than a resource has, it takes longer."""
        stretch = max(1.0, float(self.asked.max(initial=0.0)))
        work_ps = round(max(phase.work_ps for phase in self.phases) * stretch)
        return Phase(max(p.latency_ps for p in self.phases), work_ps, self.numbers, self.asked / stretch)


@dataclass(frozen=True, slots=True, eq=False)
class Replicas:
    """Instances of a call whose first ranks are of one program.

    Attributes:
        beside: their phases, in order; None where they lie over nodes in different ways.
    """

    beside: tuple[InstancePhases, ...] | None

    @property
    def alike(self) -> bool:
        """Whether all instances take as long."""
        return self.beside is not None and all(each.alike for each in self.beside)


def replicas_of(
    blocks: Sequence[Block],
    phases: Sequence[Sequence[tuple[Phase, ...]]],
    sequenced: SequencedCall,
    programs: Sequence[Program],
) -> tuple[IntArray, list[Replicas]]:
    """Number of each instance's replicas ``[I]``, instances of one block after the other, and the replicas, of a call.

    Args:
        phases: phases of each instance of each block.
    """
    program_of = np.full(len(sequenced.instance), -1, dtype=np.int64)
    for caller in sequenced.callers:
        program_of[programs[caller.program].ranks] = caller.program
    first_rank = np.concatenate([block.ranks[:, 0] for block in blocks])
    found, group_of = np.unique(program_of[first_rank], return_inverse=True)
    shape_of = np.repeat(np.arange(len(blocks)), [block.instance_count for block in blocks])
    of_instance = [each for of_block in phases for each in of_block]
    replicas = []
    for group in range(len(found)):
        instances = np.flatnonzero(group_of == group)
        own = [of_instance[instance] for instance in instances.tolist()]
        same = len({len(each) for each in own}) == len(np.unique(shape_of[instances])) == 1
        replicas.append(Replicas(tuple(InstancePhases.of(each) for each in zip(*own, strict=True)) if same else None))
    return group_of, replicas


def _mixed(shares: FloatArray, others: FloatArray) -> NDArray[np.uint64]:
    """A hash of each pair of shares: splitmix64's finaliser (Steele et al. 2014)."""
    bits, more = _bits(shares), _bits(others)
    bits = bits ^ (more ^ (more >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _bits(shares: FloatArray) -> NDArray[np.uint64]:
    return np.round(shares, DECIMALS).view(np.uint64)
