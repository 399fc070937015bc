"""A measurement and its files.

``measured.json`` names its figures as ``summary.json`` does, with the same meaning (docs/reference/metrics.md):
iteration k ends when the last rank ends it.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlrmsim.output.environment import environment
from dlrmsim.output.json_file import write_json
from dlrmsim.output.record import write_record
from scenarios.resolved import ResolvedScenario
from simulator.arrow_columns import arrow_names, arrow_numbers
from trainer.process.runs import Run
from validation.host.usual_times import MAX_STOLEN

FloatArray = npt.NDArray[np.float64]
BUSY_LOAD = 0.5
"""Load of other processes from which on figures are marked: half a core taken at all times."""

COLUMNS = ("start_s", "end_s", "loss", "page_faults", "cpu_s", "collectives_s", "calls_s")


@dataclass(frozen=True, slots=True)
class Measurement:
    """Records of the ranks; arrays are ``[P, iterations]``.

    Attributes:
        start_s: begin of each iteration on the host's monotonic clock.
        end_s: end of each iteration on the same clock.
        loss: mean loss of the rank's samples.
        page_faults: pages that the iteration touched first.
        cpu_s: core time of the rank's own thread.
        collectives_s: time in which that issued collectives and waited for them.
        calls_s: the part of it in which it issued them.
        environments: environment of each rank.
        yardstick_s: time of every step of the yardstick on each rank (`trainer.process.yardstick`).
        load: processes that ran or waited for a core in the minute before; None where the system does not report it.
    """

    start_s: FloatArray
    end_s: FloatArray
    loss: FloatArray
    page_faults: FloatArray
    cpu_s: FloatArray
    collectives_s: FloatArray
    calls_s: FloatArray
    environments: tuple[dict[str, Any], ...]
    yardstick_s: tuple[list[float], ...]
    load: float | None

    @property
    def times_s(self) -> FloatArray:
        """Time of each iteration ``[iterations]``: from the end of the one before on the last rank to its own.

        Work of the ranks between two iterations, such as a look at the yardstick, is part of neither.
        """
        return iteration_times_s(self.start_s, self.end_s)


def load_average() -> float | None:
    """Processes that ran or waited for a core, a mean over about a minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def read_measurement(folder: Path, world_size: int, load: float | None) -> Measurement:
    """Read the files of the ranks; ``load``: of the machine before they started."""
    ranks = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(world_size)]
    columns = {name: np.array([rank["iterations"][name] for rank in ranks]) for name in COLUMNS}
    return Measurement(
        **columns,
        environments=tuple(rank["environment"] for rank in ranks),
        yardstick_s=tuple(rank["yardstick_s"] for rank in ranks),
        load=load,
    )


def write_measurement(folder: Path, resolved: ResolvedScenario, run: Run, found: Measurement) -> dict[str, Any]:
    """Write the files beside the scenario and the traces; returns the content of ``measured.json``."""
    summary = summarise(resolved, run, found)
    write_json(folder / "measured.json", summary)
    _write_iterations(folder / "iterations.parquet", run, found)
    facts = {**environment(), **_host(), "load_before": found.load, "ranks": list(found.environments)}
    write_json(folder / "environment.json", facts)
    write_record(folder, {"scenario_hash": resolved.hash})
    return summary


def _number(value: float) -> float | None:
    """None for what training made no number of."""
    return value if np.isfinite(value) else None


def summarise(resolved: ResolvedScenario, run: Run, found: Measurement) -> dict[str, Any]:
    """The content of ``measured.json``."""
    counted = run.counted
    times_s = found.times_s[counted]
    mean_s = float(times_s.mean())
    halves = np.array_split(times_s, 2)
    loss = found.loss.mean(axis=0)
    batches = found.environments[0]["prepared_batches"]
    return {
        "scenario": resolved.name,
        "scenario_hash": resolved.hash,
        "iteration_time_s": mean_s,
        "iteration_time_quantiles_s": {
            name: float(np.quantile(times_s, q)) for name, q in (("p10", 0.1), ("median", 0.5), ("p90", 0.9))
        },
        "throughput_samples_per_s": resolved.global_batch_size / mean_s,
        "drift": float(halves[1].mean() / halves[0].mean() - 1.0) if run.iterations > 1 else 0.0,
        "warm_up_iterations": run.warm_up,
        "measured_iterations": run.iterations,
        "profiled_iterations": run.profiled,
        "world_size": resolved.world_size,
        "global_batch_size": resolved.global_batch_size,
        "device": found.environments[0]["device"],
        "backend": found.environments[0]["backend"],
        "rank_median_s": [float(np.median(rank[counted])) for rank in found.end_s - found.start_s],
        "stolen_share": stolen_share(found),
        "page_faults_per_iteration": float(found.page_faults[:, counted].mean()),
        "yardstick_s": usual_yardstick_s(found),
        "loss": {name: _number(float(loss[at])) for name, at in (("first", 0), ("last", counted[-1]))},
        "data": f"{run.data.name if run.data else 'synthetic'}, {batches} batches in turn",
        "warnings": _warnings(resolved, found),
    }


def iteration_times_s(start_s: FloatArray, end_s: FloatArray) -> FloatArray:
    """Times of consecutive iterations ``[iterations]`` from their begin and end on each rank ``[P, iterations]``."""
    begins, ends = start_s.min(axis=0), end_s.max(axis=0)
    before = np.concatenate([begins[:1], ends[:-1]])
    return np.asarray(ends - np.maximum(before, begins))


def usual_yardstick_s(found: Measurement) -> float | None:
    """Median time of the yardstick's step over looks and ranks, seconds; None where ranks did not look."""
    times_s = [seconds for of_rank in found.yardstick_s for seconds in of_rank]
    return float(np.median(times_s)) if times_s else None


def stolen_share(found: Measurement) -> float:
    """Share of the ranks' cores' time that the host of a virtual machine took while iterations were measured."""
    return float(np.mean([rank["stolen_measured"] for rank in found.environments]))


def _warnings(resolved: ResolvedScenario, found: Measurement) -> list[str]:
    """Warnings for a reader of the figures."""
    first = found.environments[0]
    warnings = []
    if found.load is not None and found.load > BUSY_LOAD:
        warnings.append(f"the machine was busy: a load of {found.load:.1f} in the minute before")
    stolen = stolen_share(found)
    if stolen > MAX_STOLEN:
        warnings.append(f"the host took {stolen:.0%} of the cores' time: iterations took longer for that")
    cores = [core for rank in found.environments for core in rank["cores"] or []]
    if len(set(cores)) < len(cores):
        warnings.append(f"{resolved.world_size} ranks share {len(set(cores))} cores")
    if not cores:
        warnings.append("this system does not pin processes to cores")
    if first["device"] == "cpu" and resolved.scenario.precision.dense == "tf32":
        warnings.append("dense layers computed in fp32: this device has no tf32")
    diverged = np.flatnonzero(~np.isfinite(found.loss).all(axis=0))
    if len(diverged):
        warnings.append(f"training diverged: the loss is no number from iteration {diverged[0]} on")
    return warnings


def _write_iterations(path: Path, run: Run, found: Measurement) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ranks, iterations = found.end_s.shape
    stages = [run.stage(iteration) for iteration in range(iterations)]
    names = list(dict.fromkeys(stages))
    phases = np.tile(np.array([names.index(stage) for stage in stages], dtype=np.int32), ranks)
    start_s = found.start_s[:, 0].min()
    numbers = {
        "rank": np.repeat(np.arange(ranks, dtype=np.int32), iterations),
        "iteration": np.tile(np.arange(iterations, dtype=np.int32), ranks),
        "phase": phases,
        "start_s": (found.start_s - start_s).ravel(),
        "end_s": (found.end_s - start_s).ravel(),
        "time_s": (found.end_s - found.start_s).ravel(),
        "iteration_time_s": np.tile(found.times_s, ranks),
        "cpu_s": found.cpu_s.ravel(),
        "collectives_s": found.collectives_s.ravel(),
        "calls_s": found.calls_s.ravel(),
        "loss": found.loss.ravel(),
        "page_faults": found.page_faults.ravel().astype(np.int64),
    }
    columns = {name: arrow_numbers(values) for name, values in numbers.items()}
    columns["phase"] = arrow_names(phases, names)
    pq.write_table(pa.Table.from_arrays(list(columns.values()), names=list(columns)), path)


def _host() -> dict[str, Any]:
    """CPU and memory of the machine, as far as the system reports them."""
    return {
        "cpu": _first_of("/proc/cpuinfo", "model name") or platform.processor(),
        "memory": _first_of("/proc/meminfo", "MemTotal"),
    }


def _first_of(file: str, key: str) -> str | None:
    """The first value of a key in one of Linux's files of ``key: value`` lines."""
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)
