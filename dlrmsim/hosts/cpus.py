"""``calibrate host``: times kernels and collectives of this machine, trains jobs on it, and writes its spec."""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dlrmsim.hosts.machine import MAX_RANKS_PER_CORE, require_torch
from dlrmsim.hosts.training import TrainRequest, train_jobs
from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.output.kept import Kept, kept_results
from dlrmsim.output.measurement import load_average
from hardware_specs.cpu_kernels import CpuKernels
from hardware_specs.loader import load_library
from hardware_specs.types import Cluster
from inputs.errors import InputError
from scenarios.host_memory import physical_memory_bytes
from scenarios.located import of_file
from scenarios.progress import Progress, Silent
from simulator.compute.cpu_amounts import caches_of
from trainer.bench.plans import FEWEST_CASES, BenchPlan, Largest, joined
from trainer.process.pin import usable_cores
from trainer.process.runs import Run
from trainer.process.steal_time import StolenTime
from validation.host.calibrate import errors_pct, fit_alone, fit_host, rank_counts
from validation.host.iteration_parts import PartRow
from validation.host.kernel_costs import expected_s
from validation.host.machine import HostFacts
from validation.host.record import SUFFIX, HostRecord, rounded
from validation.host.timed_kernels import Row
from validation.host.usual_times import MAX_STOLEN

COLLECTIVE_BYTES = tuple(4**power for power in range(4, 13))
"""Sizes of timed collectives, 256 B to 16 MiB."""
MOST_CASES = 30
"""Timed cases of each kind of kernel at most."""
MOST_TABLE_BYTES, MEMORY_SHARE = 4e9, 0.25
"""Largest table of a rank in a timed lookup, bytes, and largest fraction of the memory for all ranks."""
TAKEN = "a hypervisor took {:.0%} of the cores' time; the most disturbed jobs are left out: measure again when quiet"
MINUTES = 3.0
"""Default duration of the measurement, minutes."""
LARGER_FROM_MINUTES = 20.0
"""Shortest measurement that also trains larger jobs, minutes."""
ALONE_SHARE, COLLECTIVE_SHARE, MEASURED_SHARE = 0.08, 0.06, 0.7
"""Fractions of the duration: kernels alone of each layout of ranks, collectives of more ranks, end of training."""
RANKS_PER_CORE = 2
"""Ranks per core in jobs whose ranks share cores."""
MOST_CORES_SHARED = 8
"""Most cores of a machine on which such jobs are trained: on larger ones nobody has more ranks than cores."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A written spec.

    Attributes:
        cluster: the spec.
        file: path of the spec.
        rows: path of the table of measurements beside it.
        seconds: duration of the calibration.
        warning: known defect of the measurement; empty without one.
        taken_over: number of measurements that an interrupted run had made.
    """

    cluster: Cluster
    file: Path
    rows: Path
    seconds: float
    warning: str = ""
    taken_over: int = 0


def calibrate_host(
    out: Path, minutes: float = MINUTES, seed: int = 0, progress: Progress | None = None, *, fresh: bool = False
) -> HostSpec:
    """Measure this machine for about ``minutes`` and write its spec; an interrupted run goes on unless ``fresh``.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: ``out`` cannot be written, or ``minutes`` is not above 0.
        RankFailedError: a rank died.
    """
    begin, stolen = time.perf_counter(), StolenTime(usable_cores())
    require_torch()
    if not 0 < minutes < float("inf"):
        raise InputError("not a duration", file="--minutes", given=minutes, expected="above 0, e.g. 3")
    require_file_writable(out)
    with kept_results(out, fresh=fresh) as kept:
        shown = kept.shown(progress)
        record, alone = _measured(out.stem, minutes, seed, kept, shown)
        share, packed = stolen.share(), record.packed()
        file_written_whole(out.with_suffix(SUFFIX), packed)  # before the fit, which --record can repeat
        written = _written(out, HostRecord.unpacked(packed, out), alone, begin, shown)
    return replace(written, warning=TAKEN.format(share) if share > MAX_STOLEN else "", taken_over=kept.taken_over)


def _measured(name: str, minutes: float, seed: int, kept: Kept, progress: Progress) -> tuple[HostRecord, Cluster]:
    """The measurements of this machine, and the machine with kernels and collectives as they are alone."""
    here = _facts(name)
    machine = f"{here.cpu}, {here.cores} cores, {here.memory_bytes} bytes"  # its clock changes all the time
    question = f"{name} {machine} {minutes} {seed} torch {version('torch')}"
    facts = HostFacts(**kept(f"{question}\nfacts", lambda: rounded(asdict(here))))
    timed = [
        kept(f"{question}\n{ranks} ranks {plan}", partial(_timed, ranks, plan, progress))
        for ranks, plan in _layouts(minutes, seed)
    ]
    rows = [row for of in timed for row in of["rows"]]
    alone = fit_alone(facts, rows, progress)
    ranks = [*rank_counts(facts.cores).values()]
    if facts.cores <= MOST_CORES_SHARED:
        ranks.append(RANKS_PER_CORE * facts.cores)
    left_s = MEASURED_SHARE * 60.0 * minutes - sum(of["seconds"] for of in timed)
    request = TrainRequest(ranks, seed, left_s, larger=minutes >= LARGER_FROM_MINUTES, question=question)
    return HostRecord(facts, rows, train_jobs(request, alone, progress, kept)), alone


def refit_host(records: Sequence[str], out: Path, progress: Progress | None = None) -> HostSpec:
    """Fit the records of one machine, on any machine, and write the spec.

    Args:
        records: files, or names of shipped hosts; at least one.
        out: path of the spec.
        progress: receives the stage.

    Raises:
        InputError: a record does not exist or is of another machine, or ``out`` cannot be written.
    """
    shown, begin = progress or Silent(), time.perf_counter()
    found = HostRecord.read(records[0])
    for name in records[1:]:
        found = found.joined(HostRecord.read(name), name)
    require_file_writable(out)
    with of_file(records[0]):
        return _written(out, found, fit_alone(found.facts, found.rows, shown), begin, shown)


def _written(out: Path, record: HostRecord, alone: Cluster, begin: float, progress: Progress) -> HostSpec:
    progress.stage("fitting the costs of kernels")
    fit, counts = fit_host(record, alone), rank_counts(record.facts.cores)
    parts = [(counts[threads], threads, part) for threads, of in fit.parts.items() for part in of]
    errors = errors_pct(record.rows, fit.cluster)
    table = out.with_suffix(".rows.csv")
    file_written_whole(table, _rows_csv(record.rows, errors, parts, list(fit.cluster.node.cpu.kernels)))
    file_written_whole(out, _yaml(fit.cluster))
    return HostSpec(fit.cluster, out, table, time.perf_counter() - begin)


def _layouts(minutes: float, seed: int) -> list[tuple[int, BenchPlan]]:
    """Numbers of ranks with their plans: one rank on all cores, one on each core, and collectives of 2 and 4."""
    count = int(np.clip(minutes * 10, FEWEST_CASES, MOST_CASES))
    share_s = minutes * 60.0
    kernels = rank_counts(len(usable_cores())).values()
    layouts = [
        (
            ranks,
            BenchPlan(
                seed=seed,
                cases=count,
                case_s=0.02,
                collective_bytes=COLLECTIVE_BYTES if ranks in (2, 4) else (),
                largest=Largest(table_bytes=min(MOST_TABLE_BYTES, MEMORY_SHARE * physical_memory_bytes() / ranks)),
                seconds=ALONE_SHARE * share_s,
            ),
        )
        for ranks in kernels
    ]
    beside = [ranks for ranks in (2, 4) if ranks not in kernels]
    alone = BenchPlan(cases=0, case_s=0.02, collective_bytes=COLLECTIVE_BYTES, seconds=COLLECTIVE_SHARE * share_s)
    return layouts + [(ranks, alone) for ranks in beside]


def _timed(ranks: int, plan: BenchPlan, progress: Progress) -> dict[str, Any]:
    """Rows of kernels and collectives on so many ranks, and the seconds that it took to time them."""
    from trainer.process.launch import run_ranks

    begin = time.perf_counter()
    progress.stage(f"timing kernels and collectives on {ranks} ranks")
    cores = usable_cores()
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        folder = Path(name)
        plan.write(folder / "plan.json")
        taken = cores if plan.cases else cores[:ranks]  # collectives are timed between ranks of one thread
        run_ranks(Run(scenario=folder / "plan.json", out=folder), ranks, taken, module="trainer.bench.microbench")
        timed = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    rows = rounded([{**row, "alone": ranks <= len(cores)} for row in joined(timed)])
    return {"rows": rows, "seconds": time.perf_counter() - begin}


_VENDORS: Mapping[str, Literal["intel", "amd"]] = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}
"""Vendors by the system's ``vendor_id``."""


def _facts(name: str) -> HostFacts:
    cores = usable_cores()
    info = _cpuinfo()
    when = time.strftime("%Y-%m-%d", time.gmtime())
    return HostFacts(
        name=re.sub(r"[^A-Za-z0-9._-]", "_", name),
        cpu=info.get("model name", platform.processor() or "unknown CPU"),
        vendor=_VENDORS.get(info.get("vendor_id", ""), "other"),
        cores=len(cores),
        clock_hz=float(info.get("cpu MHz", "1000")) * 1e6,
        core_cache_bytes=_cache_bytes(2, 1024.0**2),
        shared_cache_bytes=_cache_bytes(3, 16 * 1024.0**2),
        memory_bytes=float(physical_memory_bytes()),
        most_ranks=MAX_RANKS_PER_CORE * len(cores),
        source=f"dlrmsim calibrate host, {when}, torch {version('torch')}, {len(cores)} cores, {_load_in_words()}",
    )


def _load_in_words() -> str:
    """Load average before the measurement."""
    load = load_average()
    return "load unknown" if load is None else f"load {load:.1f} before"


def _cpuinfo() -> dict[str, str]:
    """Entries of ``/proc/cpuinfo`` of the first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    return {key.strip(): value.strip() for key, value in pairs}


def _cache_bytes(level: int, default: float) -> float:
    """Size of a cache of the first core, bytes, as Linux reports it."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").read_text(encoding="ascii").strip()
    except OSError:
        return default
    return float(text.rstrip("KM")) * {"K": 1024, "M": 1024**2}.get(text[-1:], 1)


def _rows_csv(
    rows: Sequence[Row],
    errors: Sequence[float | None],
    parts: Sequence[tuple[int, int, PartRow]],
    kernels: Sequence[CpuKernels],
) -> str:
    """Table of measurements: a line per kernel or collective alone, and per part of a training iteration."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kind", "ranks", "threads", "sizes", "rounds_s", "median_s", "error_pct"])
    apart = {"kind", "ranks", "threads", "times_s", "issue_s", "cores", "alone"}
    for row, error in zip([row for row in rows if row["times_s"]], errors, strict=True):
        sizes = json.dumps({name: value for name, value in row.items() if name not in apart})
        rounds = " ".join(f"{seconds:.4g}" for seconds in row["times_s"])
        middle = f"{np.median(row['times_s']):.4g}"
        writer.writerow(
            [row["kind"], row["ranks"], row["threads"], sizes, rounds, middle, "" if error is None else f"{error:.1f}"]
        )
    known = {of.threads: of for of in kernels}
    for ranks, threads, part in parts:
        counted = part.counts(caches_of(known[threads]))
        counts = json.dumps({f"{kind}.{name}": float(f"{count:.5g}") for (kind, name), count in counted.items()})
        error = 100.0 * (expected_s(part, known[threads]) / part.seconds - 1.0)
        seconds = f"{part.seconds:.4g}"
        writer.writerow([f"training {part.name}", ranks, threads, counts, seconds, seconds, f"{error:.1f}"])
    return text.getvalue()


def _yaml(cluster: Cluster) -> str:
    """The cluster, with the library by its name."""
    import yaml

    data = cluster.to_dict()
    if cluster.collectives == load_library("gloo"):
        data["collectives"] = "gloo"
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
