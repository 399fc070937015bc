"""``calibrate host``: times kernels and collectives of this machine, and writes the cluster that it is."""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dlrmsim.measurements import load_average, read_measurement
from dlrmsim.measuring import MAX_RANKS_PER_CORE, require_torch, with_plan
from dlrmsim.outputs import file_written_whole
from hardware_specs.cpu_kernels import CpuKernels
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from inputs.errors import InputError
from scenarios.host_memory import physical_memory_bytes
from scenarios.prepare import prepare
from scenarios.progress import Progress, Silent
from scenarios.resolve import load_scenario
from simulator.compute import CpuModel
from trainer.bench_plan import FEWEST_CASES, Plan, joined
from trainer.pin import usable_cores
from trainer.runs import Run
from validation.host_fit import HostFacts, errors_pct, fit_kernels, host_cluster, issue_s, launch_s, with_host_costs

COLLECTIVE_BYTES = tuple(4**power for power in range(4, 13))
"""256 B to 16 MiB."""
TINY = Path(str(files("trainer") / "samples" / "host_overhead.yaml"))
"""Scenario whose iterations are nearly all overhead of the framework."""
MOST_CASES = 30


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A spec that is written.

    Attributes:
        cluster: what it says.
        file: where.
        rows: the file of what was measured, beside it.
        seconds: how long it took.
    """

    cluster: Cluster
    file: Path
    rows: Path
    seconds: float


def calibrate_host(out: Path, minutes: float = 3.0, seed: int = 0, progress: Progress | None = None) -> HostSpec:
    """Measure this machine for about so many minutes and write the spec.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: ``out`` cannot be written, or ``minutes`` is not above 0.
        RankFailedError: a rank died.
    """
    shown, begin = progress or Silent(), time.perf_counter()
    require_torch()
    if not 0 < minutes < float("inf"):
        raise InputError("not a time", file="--minutes", given=minutes, expected="above 0, e.g. 3")
    facts = _facts(out.stem)
    rows = [row for layout in _layouts(minutes, seed) for row in _measure(*layout, shown)]
    shown.stage("fitting the costs of kernels")
    collective_s = issue_s(rows)
    kernels = []
    for known in fit_kernels(rows, facts):
        shown.stage(f"timing the framework with {known.threads} threads")
        overhead_s, noise_pct = _overhead(known, facts)
        kernels.append(with_host_costs(known, overhead_s, collective_s, noise_pct))
    cluster = host_cluster(rows, facts, kernels, shown)
    table = out.with_suffix(".rows.csv")
    file_written_whole(table, _rows_csv(rows, errors_pct(rows, cluster, facts.caches)))
    file_written_whole(out, _yaml(cluster))
    return HostSpec(cluster, out, table, time.perf_counter() - begin)


def _layouts(minutes: float, seed: int) -> list[tuple[int, Plan]]:
    """Ranks, and what they time: one rank with all cores, one on each core, and collectives of 2 and 4."""
    cores = len(usable_cores())
    count = int(np.clip(minutes * 10, FEWEST_CASES, MOST_CASES))
    share_s = minutes * 60.0
    kernels = sorted({1, cores})
    layouts = [
        (ranks, Plan(seed, count, 3, 0.02, COLLECTIVE_BYTES if ranks in (2, 4) else (), 0.27 * share_s))
        for ranks in kernels
    ]
    beside = [ranks for ranks in (2, 4) if ranks not in kernels]
    return layouts + [(ranks, Plan(seed, 0, 3, 0.02, COLLECTIVE_BYTES, 0.08 * share_s)) for ranks in beside]


def _measure(ranks: int, plan: Plan, progress: Progress) -> list[dict[str, Any]]:
    from trainer.launch import run_ranks

    progress.stage(f"timing kernels and collectives on {ranks} ranks")
    cores = usable_cores()
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        folder = Path(name)
        plan.write(folder / "plan.json")
        run_ranks(Run(scenario=folder / "plan.json", out=folder), ranks, cores, module="trainer.microbench")
        timed = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    together = max(1.0, ranks / len(cores))
    return [{**row, "ranks_per_core": together, "alone": ranks <= len(cores)} for row in joined(timed)]


def _overhead(known: CpuKernels, facts: HostFacts) -> tuple[float, float]:
    """Seconds of the framework for each launch, and the noise of the iterations it follows from, per cent."""
    from trainer.launch import run_ranks

    machine = host_cluster([], facts, [known], Silent())
    resolved = with_plan(replace(load_scenario(TINY), cluster=machine), Silent())
    cores = usable_cores()[: known.threads]
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        folder = Path(name)
        scenario = folder / "scenario.yaml"
        scenario.write_text(resolved.to_yaml(), encoding="utf-8")
        run = Run(scenario, out=folder, iterations=100, warm_up=20, prepared=8)
        run_ranks(run, 1, cores)
        found = read_measurement(folder, 1, None)
    taken_s = found.cpu_s if known.threads == 1 else found.end_s - found.start_s
    times_s = taken_s[0, run.warm_up :]
    low, middle, high = np.quantile(times_s, [0.1, 0.25, 0.4])
    graph = prepare(resolved, Silent()).graph
    overhead_s = launch_s(graph, CpuModel.of(machine.node, 1), float(middle))
    return overhead_s, 100.0 * float(high - low) / 2 / float(middle)


def _facts(name: str) -> HostFacts:
    cores = usable_cores()
    info = _cpuinfo()
    when = time.strftime("%Y-%m-%d", time.gmtime())
    return HostFacts(
        name=re.sub(r"[^A-Za-z0-9._-]", "_", name),
        cpu=info.get("model name", platform.processor() or "unknown CPU"),
        vendor={"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(info.get("vendor_id", ""), "other"),
        cores=len(cores),
        clock_hz=float(info.get("cpu MHz", "1000")) * 1e6,
        core_cache_bytes=_cache_bytes(2, 1024.0**2),
        shared_cache_bytes=_cache_bytes(3, 16 * 1024.0**2),
        memory_bytes=float(physical_memory_bytes()),
        most_ranks=MAX_RANKS_PER_CORE * len(cores),
        source=f"dlrmsim calibrate host, {when}, torch {version('torch')}, {len(cores)} cores, {_load_in_words()}",
    )


def _load_in_words() -> str:
    """How busy the machine was before."""
    load = load_average()
    return "load not told" if load is None else f"load {load:.1f} before"


def _cpuinfo() -> dict[str, str]:
    """Linux's facts of the first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    return {key.strip(): value.strip() for key, value in pairs}


def _cache_bytes(level: int, default: float) -> float:
    """Size of a cache of the first core, as Linux tells it."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").read_text(encoding="ascii").strip()
    except OSError:
        return default
    return float(text.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(text[-1:], 1)


def _rows_csv(rows: Sequence[dict[str, Any]], errors: Sequence[float]) -> str:
    """What was measured, a line per kernel or collective and number of ranks."""
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    writer.writerow(["kind", "ranks", "threads", "sizes", "rounds_s", "median_s", "error_pct"])
    apart = {"kind", "ranks", "threads", "times_s", "issue_s", "cores", "ranks_per_core", "alone"}
    for row, error in zip([row for row in rows if row["times_s"]], errors, strict=True):
        sizes = json.dumps({name: value for name, value in row.items() if name not in apart})
        rounds = " ".join(f"{seconds:.4g}" for seconds in row["times_s"])
        middle = f"{np.median(row['times_s']):.4g}"
        writer.writerow([row["kind"], row["ranks"], row["threads"], sizes, rounds, middle, f"{error:.1f}"])
    return told.getvalue()


def _yaml(cluster: Cluster) -> str:
    """The cluster, with the library by its name."""
    import yaml

    data = cluster.to_dict()
    if cluster.collectives == load_library("gloo"):
        data["collectives"] = "gloo"
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
