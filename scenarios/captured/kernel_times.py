"""Times of a captured job's kernels, each alone on its GPU, by module and by how they are priced."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scenarios.block_times import BlockTimes
from simulator.compute import ComputeModel
from workloads.captured.fusing import JobStep, steps_of
from workloads.captured.kernels import operators_of
from workloads.captured.settings import CapturedSettings

LEVELS = 2
"""Named levels of a module's path that a block has; numbers of layers stand beside them."""

MOST_BLOCKS = 80
"""Rows of the table of blocks; further modules, those with the shortest kernels, share a row."""

SECTIONS = {"forward": 0, "recompute": 1, "backward": 2, "optimizer": 2}
"""Column of a block's times by section; kernels of other sections count as forward."""

OPTIMIZER = "optimizer"
"""Section whose kernels belong to no module."""

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ProgramTimes:
    """Kernels of the ranks of a program.

    Attributes:
        ranks: number of ranks.
        steps: its tasks ``[T]``.
        seconds: duration of each task's kernel ``[T]``; 0 for collectives and waits.
    """

    ranks: int
    steps: Sequence[JobStep]
    seconds: Sequence[float]


def kernel_times(settings: CapturedSettings, compute: ComputeModel) -> list[ProgramTimes]:
    """Times of the kernels of all programs."""
    job, kernels = settings.job, operators_of(settings)
    known: dict[int, float] = {id(None): 0.0}
    found = []
    for program in job.programs:
        steps = steps_of(job, program, kernels, fused=settings.fuse != "none")
        for step in steps:
            if step.kernel is not None and id(step.kernel) not in known:
                known[id(step.kernel)] = float(np.max(compute.duration_s(step.kernel)))
        found.append(ProgramTimes(len(program.ranks), steps, [known[id(step.kernel)] for step in steps]))
    return found


@dataclass(frozen=True, slots=True)
class PricedByBytes:
    """Kernels priced by their bytes alone.

    Attributes:
        share: part of the time of all kernels of all ranks, 0 to 1.
        operators: the three operators with most of it, longest first.
    """

    share: float
    operators: tuple[str, ...]

    @staticmethod
    def of(times: Sequence[ProgramTimes]) -> PricedByBytes:
        """Kernels of all programs that are priced so."""
        whole, by_operator = 0.0, Counter[str]()
        for program in times:
            whole += program.ranks * sum(program.seconds)
            for step, seconds in zip(program.steps, program.seconds, strict=True):
                if step.by_bytes and seconds:
                    by_operator[step.operators[0]] += program.ranks * seconds  # type: ignore[assignment]  # seconds
        share = sum(by_operator.values()) / whole if whole else 0.0
        return PricedByBytes(share, tuple(name for name, _ in by_operator.most_common(3)))

    def warning(self) -> str | None:
        """The share in words; None: there is none."""
        if not self.share:
            return None
        return (
            f"{100 * self.share:.1f} % of the time of kernels is of operators that are priced by the bytes they move "
            f"alone, most of all {', '.join(self.operators)}"
        )


def block_of(module: str, section: str) -> str:
    """Block of a kernel: its module's path, cut; ``layers.3.self_attn`` of ``layers.3.self_attn.q_proj``."""
    kept, levels = [], 0
    for part in module.split(".") if module else ():
        levels += _NUMBER.fullmatch(part) is None
        if levels > LEVELS:
            break
        kept.append(part)
    return ".".join(kept) or (OPTIMIZER if section == OPTIMIZER else "outside modules")


def blocks_of(times: Sequence[ProgramTimes]) -> Iterator[BlockTimes]:
    """Kernels of an iteration by block, mean over ranks, in the order in which the blocks first run."""
    world_size = sum(program.ranks for program in times)
    found: dict[str, list[float]] = {}
    for program in times:
        for step, seconds in zip(program.steps, program.seconds, strict=True):
            if seconds:
                row = found.setdefault(block_of(step.module, step.section), [0.0, 0.0, 0.0])
                row[SECTIONS.get(step.section, 0)] += seconds * program.ranks / world_size
    longest = set(sorted(found, key=lambda block: -sum(found[block]))[:MOST_BLOCKS])
    for block, row in found.items():
        if block in longest:
            yield BlockTimes(block, 0, *row)
    others = [row for block, row in found.items() if block not in longest]
    if others:
        yield BlockTimes(f"{len(others)} other blocks", 0, *map(sum, zip(*others, strict=True)))
