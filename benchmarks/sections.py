"""``python -m benchmarks sections --cluster SPEC --again DIR``: where launches that a study kept are off.

Of each section of an iteration, and of lookups, updates and GEMMs, how many times as long it took as its kernels take
alone, measured and predicted: medians over configurations of so many ranks, of which the mean over ranks and traced
iterations counts. Of several ranks besides: what of an iteration they issued collectives and waited for them, the most
and the least of a rank's mean, and how far the work of ranks is from their mean in one iteration. Launches count, and
times are as if the machine had been as fast as its spec says, as ``accuracy --again`` has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.accuracy import Kept, kept_launches, undisturbed_first
from benchmarks.rows import Row
from hardware_specs.cpu_kernels import Followed
from inputs.errors import InputError
from scenarios.prepare import Prepared, prepare
from scenarios.progress import Silent
from simulator.compute import CpuModel
from simulator.compute.cpu_amounts import class_of
from simulator.lowering.cores import paces
from simulator.operators import CollectiveCall, FloatArray, Gemm, Work
from validation.in_situ import Beside, group_of
from validation.measured import Measured, stage_page_faults
from validation.measured_prediction import issuing_s, predict_beside
from validation.over_cores import apart_s, usual
from validation.timed import LOOKUP, UPDATE, read_timed
from validation.together import Together, lookups_slower
from validation.yardstick import slowness


def rows(folder: Path, cluster: str) -> Iterator[Row]:
    """Medians over the configurations of each number of ranks.

    Args:
        folder: of the study's ``--keep``.
        cluster: name or path of the machine that predicts.

    Raises:
        InputError: nothing is kept there, or the machine cannot run it or is no host.
    """
    found: dict[int, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[int, int] = defaultdict(int)
    for kept in kept_launches(folder, cluster):
        of_ranks = found[kept.scenario.world_size]
        for key, value in _of_config(kept).items():
            of_ranks[key].append(value)
        counts[kept.scenario.world_size] += 1
    for ranks, of_ranks in sorted(found.items()):
        yield Row(f"sections_{ranks}_ranks", counts[ranks], "configurations")
        for (name, unit), values in of_ranks.items():
            yield Row(f"{name}_{ranks}_ranks", float(np.median(values)), unit)


def _of_config(kept: Kept) -> dict[tuple[str, str], float]:
    """What is told of a configuration, by name and unit."""
    prepared, beside = prepare(kept.scenario, Silent()), predict_beside(kept.scenario)
    compute = prepared.machine.compute
    if not isinstance(compute, CpuModel):
        raise InputError("ranks compute on GPUs", file="--cluster", expected="a host, as `calibrate host` writes one")
    launches = undisturbed_first(kept.launches)[: kept.counted]
    measured_s = _measured_s(launches, Together(beside.together_share, compute.kernels), compute.followed)
    alone_s, beside_s = _predicted_s(prepared, beside)
    told = {}
    for name, seconds in alone_s.items():
        if seconds > 0.0 and measured_s.get(name, 0.0) > 0.0:
            told[f"{name}_measured", "times alone"] = measured_s[name] / seconds
            told[f"{name}_predicted", "times alone"] = beside_s[name] / seconds
    ranks = kept.scenario.world_size
    return told | (_between_ranks(launches, compute, beside, ranks) if ranks > 1 else {})


def _measured_s(launches: Sequence[Measured], together: Together, followed: Followed) -> Mapping[str, float]:
    """Seconds of each group in an iteration: the median over launches of the mean over ranks and traced iterations.

    They are as when the machine was calibrated; ``together``: what is predicted of lookups beside those of other ranks,
    ``followed``: how closely jobs go with the yardstick.
    """
    import pandas as pd

    each: dict[str, list[float]] = defaultdict(list)
    for launch in launches:
        pieces_s = launch.times.yardstick_s, together.kernels.yardstick_s
        slower, of_lookups = slowness(*pieces_s, followed), lookups_slower(*pieces_s, together, followed)
        files = sorted((launch.folder / "timed").glob("rank*.json.gz"))
        faults = stage_page_faults(pd.read_parquet(launch.folder / "iterations.parquet"))
        of_launch: dict[str, float] = defaultdict(float)
        for file in files:
            for name, seconds in read_timed(file, faults, lambda values: float(np.mean(values))).groups_s.items():
                of_launch[_told(name)] += seconds / len(files) / (of_lookups if name.endswith(LOOKUP) else slower)
        for name, seconds in of_launch.items():
            each[name].append(seconds)
    return {name: float(np.median(seconds)) for name, seconds in each.items()}


def _predicted_s(prepared: Prepared, beside: Beside) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Seconds of the kernels of each group alone, and in an iteration as they are told, means over ranks."""
    (program,) = prepared.graph.programs
    alone_s: dict[str, float] = defaultdict(float)
    beside_s: dict[str, float] = defaultdict(float)
    for task, (name, section, work) in enumerate(zip(program.names, program.sections, program.work, strict=True)):
        if not isinstance(work, CollectiveCall) and class_of(work) is not None:
            group, apart_from_it_s = _group(name, section, work), issuing_s(prepared, work)
            alone_s[group] += float(beside.alone_s[task].mean()) - apart_from_it_s
            beside_s[group] += float(beside.beside_s[task].mean()) - apart_from_it_s
    return alone_s, beside_s


def _group(name: str, section: str, work: Work) -> str:
    return "gemm" if isinstance(work, Gemm) else _told(group_of(name, section, work))


def _told(name: str) -> str:
    """All kinds of lookups are one, and all kinds of updates."""
    return next((kind.strip("_") for kind in (LOOKUP, UPDATE) if name.endswith(kind)), name)


def _between_ranks(
    launches: Sequence[Measured], compute: CpuModel, beside: Beside, ranks: int
) -> dict[tuple[str, str], float]:
    """What ranks wait, and how far their work is from the mean of all, medians over launches; the latter predicted too.

    Predicted is what chance makes of ranks of equal work.
    """
    least, most, apart = np.median([_apart(launch.folder) for launch in launches], axis=0).tolist()
    by_chance = np.abs(paces(compute.core_group_of(np.arange(ranks)), beside.spread) - 1.0).mean()
    return {
        ("least_in_collectives", "% of iteration"): 100.0 * least,
        ("most_in_collectives", "% of iteration"): 100.0 * most,
        ("work_apart_measured", "% of work"): 100.0 * apart,
        ("work_apart_by_chance", "% of work"): 100.0 * float(by_chance),
    }


def _apart(launch: Path) -> FloatArray:
    """Least and most of an iteration that a rank is in collectives, and distance of ranks' work from its mean ``[3]``.

    Means over the usual half of measured iterations; the last over work.
    """
    import pandas as pd

    found = pd.read_parquet(launch / "iterations.parquet")
    found = found[found["phase"] == "measured"].assign(wall_s=lambda rows: rows["end_s"] - rows["start_s"])
    wall_s, in_collectives_s, cores = (
        found.pivot_table(index="iteration", columns="rank", values=name).to_numpy()
        for name in ("wall_s", "collectives_s", "core")
    )
    half = usual(wall_s.mean(axis=1))
    waited = in_collectives_s[half].mean(axis=0) / wall_s[half].mean()
    work_s = float((wall_s - in_collectives_s)[half].mean())
    return np.array([waited.min(), waited.max(), apart_s(wall_s, in_collectives_s, cores[:, 0]) / work_s])
