"""``calibrate host --device cuda``: times the GPUs of this machine and writes the cluster that it is.

The other result is a framework profile: overheads of the reference trainer around its kernels there. Values that are
not measured come from a shipped cluster with the same GPU.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dlrmsim.hosts.machine import require_torch
from dlrmsim.hosts.turns import Training, trained_by_turns
from dlrmsim.output.folders import file_written_whole, require_file_writable
from dlrmsim.output.kept import Kept, kept_results
from dlrmsim.output.measurement import iteration_times_s
from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import load_cluster
from hardware_specs.types import Cluster
from inputs.errors import InfeasibleError, InputError
from scenarios.dlrm.written import with_plan
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from traces.replay.gpu import gpu_of_device
from trainer.bench.plans import BenchPlan, Largest, joined
from trainer.bench.series import SCENARIO
from trainer.process.pin import usable_cores
from trainer.process.runs import Run
from validation.fits.spec_text import fitted_profile
from validation.gpu.calibration import FEWEST_JOBS, KIND_OF, GpuFit, fit_gpus
from validation.gpu.record import GpuJob, GpuRecord
from validation.host.prediction import predict
from validation.host.random_jobs import Limits, random_job
from validation.host.record import SUFFIX, rounded

LARGEST = Largest(table_bytes=4e9, batch=65_536, flops=1e11, lookups=1e7, gathered=6e8, paired=6e8)
"""Limits of kernel sizes: the largest take a GPU some milliseconds, as those of large jobs do."""
CASES = 60
"""Number of cases of each kind of kernel, if there is time for them."""
CASE_S = 0.02
COLLECTIVE_BYTES = tuple(4**power for power in range(5, 15))
"""1 kiB to 256 MiB."""
KERNELS_SHARE, COLLECTIVES_SHARE = 0.3, 0.1
"""Fractions of the time for kernels alone and for collectives of each number of ranks; the rest is for jobs."""
RANKS = (1, 2, 4, 8)
"""Numbers of ranks that are measured, as far as there are GPUs."""
LIMITS = Limits(table_bytes=6 * 2**30)
"""Limits of job sizes, those of the study of random configurations."""
CPU_LIMITS = Limits(table_bytes=1e8, gathered_bytes=5e7, flops=4e8)
"""Limits of job sizes where CPUs stand in for GPUs."""
LEAST_S, MOST_S = 5e-4, 1.0
"""An iteration of a job, as the cluster that the calibration starts from predicts it."""
JOBS_PER_S = 0.25
"""Drawn for each second of time; more than can be trained."""
SCHEDULE = Run(Path(), warm_up=10, iterations=30, prepared=3, repeated_weights=True)
"""Schedule of a job's training."""
GPU_CALIBRATION = 0x6CA1
"""Key of the draws, different from those of the studies, whatever their seed, and of CPUs."""
FRAMEWORK = "pytorch"
"""The profile that the trainer's starts from."""


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """A spec that is written.

    Attributes:
        fit: the fitted machine.
        file: the cluster.
        framework: the profile; None: too few jobs were trained.
        seconds: duration of the calibration.
        taken_over: number of measurements that an interrupted run had made.
    """

    fit: GpuFit
    file: Path
    framework: Path | None
    seconds: float
    taken_over: int = 0


def calibrate_gpus(
    out: Path,
    cluster: str | None = None,
    minutes: float = 3.0,
    seed: int = 0,
    progress: Progress | None = None,
    device: str = "cuda",
    *,
    fresh: bool = False,
) -> GpuSpec:
    """Measure this machine's GPUs for about so many minutes and write the spec.

    Args:
        out: the cluster; record and profile go beside it.
        cluster: name or path of the one that counts for all that is not measured; None: the first shipped one with
            the same GPU.
        minutes: duration of the measurement.
        seed: seed of sizes and jobs.
        progress: shows the steps.
        device: device on which ranks compute; ``cpu`` treats this machine as ``cluster``, which tests the whole path.
        fresh: whether to measure again what an interrupted run had measured.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: ``out`` cannot be written, ``minutes`` is not above 0, or no shipped cluster has such a GPU.
        RankFailedError: a rank died.
    """
    begin = time.perf_counter()
    require_torch()
    if not 0 < minutes < float("inf"):
        raise InputError("not a time", file="--minutes", given=minutes, expected="above 0, e.g. 3")
    require_file_writable(out)
    name, count = _gpus(device)
    start = load_cluster(cluster) if cluster else cluster_of_device(name)
    if start.node.gpu is None:
        raise InputError("has no GPUs", file="--cluster", given=start.name, expected="a cluster with them")
    ranks = [ranks for ranks in RANKS if ranks <= min(count, start.node.ranks)]
    with kept_results(out, fresh=fresh) as kept:
        shown = kept.shown(progress)
        packed = _measured(_Measuring(name, start, ranks, seed, 60.0 * minutes, device), kept, shown).packed()
        file = out.with_suffix(SUFFIX)
        file_written_whole(file, packed)
        written = _written(GpuRecord.unpacked(packed, file), out, begin, shown)
    return replace(written, taken_over=kept.taken_over)


@dataclass(frozen=True, slots=True)
class _Measuring:
    """A measurement: name of the GPUs, cluster to start from, numbers of ranks, seed, duration (s), device."""

    name: str
    start: Cluster
    ranks: Sequence[int]
    seed: int
    seconds: float
    device: str

    @property
    def question(self) -> str:
        """Text on which all of it depends."""
        start = json.dumps(self.start.to_dict())
        return f"{self.name} {start} {self.ranks} {self.seed} {self.seconds} {self.device} torch {version('torch')}"


def _measured(asked: _Measuring, kept: Kept, progress: Progress) -> GpuRecord:
    """Kernels, collectives and jobs, each kept as soon as it is measured."""
    when = time.strftime("%Y-%m-%d", time.gmtime())
    source = f"dlrmsim calibrate host --device {asked.device}, {when}, torch {version('torch')}, {asked.name}"
    source = kept(f"{asked.question}\nsource", lambda: source)
    seed, seconds, largest = asked.seed, asked.seconds, LARGEST if asked.device == "cuda" else Largest()
    plans = {1: BenchPlan(seed, CASES, 3, CASE_S, (), largest, tuple(KIND_OF), KERNELS_SHARE * seconds)}
    for several in asked.ranks[1:]:
        plans[several] = BenchPlan(seed, 0, 3, CASE_S, COLLECTIVE_BYTES, seconds=COLLECTIVES_SHARE * seconds)
    timed = [
        kept(f"{asked.question}\n{ranks} GPUs {plan}", partial(_timed, ranks, plan, asked.device, progress))
        for ranks, plan in plans.items()
    ]
    rows = [row for of in timed for row in of["rows"]]
    left_s = seconds - sum(of["seconds"] for of in timed)
    return GpuRecord(asked.name, asked.start, source, rows, _trained(asked, left_s, kept, progress))


def refit_gpus(record: GpuRecord, out: Path, progress: Progress | None = None) -> GpuSpec:
    """Fit the measurements of an earlier calibration, on any machine, and write the spec.

    Raises:
        InputError: ``out`` cannot be written.
    """
    require_file_writable(out)
    return _written(record, out, time.perf_counter(), progress or Silent())


def cluster_of_device(device: str) -> Cluster:
    """The first shipped cluster whose GPU is the device.

    Args:
        device: name that the driver gives.

    Raises:
        InputError: no shipped GPU is like it, or no shipped cluster has it.
    """
    gpu = gpu_of_device(device, CATALOGS["gpu"].names(), "--cluster")
    for name in sorted(CATALOGS["cluster"].names()):
        found = load_cluster(name)
        if found.node.gpu is not None and found.node.gpu.name == gpu:
            return found
    raise InputError("no shipped cluster has this GPU", file="--cluster", given=gpu, expected="a cluster's file")


def _gpus(device: str) -> tuple[str, int]:
    """Name that the driver gives to GPUs, and their number; 1 for a CPU.

    Raises:
        InputError: there is none.
    """
    if device == "cpu":
        return "cpu", 1
    from trainer.gpus import gpu_count, gpu_name

    if not gpu_count():
        raise InputError("no GPU that PyTorch can use", file="--device", given=device, expected="cpu")
    return gpu_name(), gpu_count()


def _timed(ranks: int, plan: BenchPlan, device: str, progress: Progress) -> dict[str, Any]:
    """Rows of kernels or collectives on so many ranks, and the seconds that it took to time them."""
    from trainer.process.launch import run_ranks

    begin = time.perf_counter()
    progress.stage(f"timing {'kernels' if plan.cases else 'collectives'} on {ranks} GPUs")
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        folder = Path(name)
        plan.write(folder / "plan.json")
        run = Run(scenario=folder / "plan.json", out=folder, device=device)
        run_ranks(run, ranks, usable_cores(), module="trainer.bench.microbench")
        found = [json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    return {"rows": rounded(joined(found)), "seconds": time.perf_counter() - begin}


def _trained(asked: _Measuring, seconds: float, kept: Kept, progress: Progress) -> list[GpuJob]:
    """Jobs drawn at random, trained by turns until the time is over and there are enough for a fit."""
    counts = asked.ranks
    progress.stage(f"training jobs drawn at random by turns on {', '.join(map(str, counts))} GPUs")
    with tempfile.TemporaryDirectory(prefix="dlrmsim-host-") as name:
        root = Path(name)
        drawn = max(FEWEST_JOBS, round(JOBS_PER_S * seconds / len(counts)))
        limits = LIMITS if asked.device == "cuda" else CPU_LIMITS
        jobs = {
            ranks: drawn_jobs(ranks, asked.seed, drawn, asked.start, root / f"ranks_{ranks}", limits)
            for ranks in counts
        }
        folders = {ranks: list(of_ranks) for ranks, of_ranks in jobs.items()}
        run = replace(SCHEDULE, device=asked.device)
        training = Training(run, folders, root, seconds, FEWEST_JOBS, asked.question)

        def record(ranks: int, folder: Path) -> dict[str, Any]:
            scenario = {**jobs[ranks][folder].to_dict(), "cluster": None}
            return {"scenario": scenario, "iteration_s": _iteration_s(folder, ranks)}

        return [GpuJob(**found) for found in trained_by_turns(training, kept, record).values()]


def drawn_jobs(
    ranks: int, seed: int, count: int, machine: Cluster, root: Path, limits: Limits
) -> Mapping[Path, ResolvedScenario]:
    """A folder for each of so many jobs, with its scenario and plan; the same for the same arguments.

    Args:
        ranks: number of ranks that train them.
        seed: seed of the draws.
        count: number of jobs.
        machine: cluster that they are planned for, and that predicts iterations of `LEAST_S` to `MOST_S`.
        root: folder for theirs.
        limits: limits of the drawn sizes.
    """
    random = np.random.default_rng([seed, ranks, GPU_CALIBRATION])
    made: dict[Path, ResolvedScenario] = {}
    while len(made) < count:
        given = random_job(random, f"job_{len(made)}", machine.name, ranks)
        folder = root / given["name"]
        folder.mkdir(parents=True, exist_ok=True)
        if not limits.allow(given):
            continue
        (folder / "job.json").write_text(json.dumps({**given, "cluster": machine.to_dict()}), encoding="utf-8")
        try:
            job = with_plan(load_scenario(folder / "job.json"), Silent())
            if not LEAST_S <= predict(job).iteration_s <= MOST_S:
                continue
        except InfeasibleError:
            continue
        (folder / SCENARIO).write_text(job.to_yaml(), encoding="utf-8")
        made[folder] = job
    return made


def _iteration_s(folder: Path, ranks: int) -> float:
    """The usual time of those that count, seconds."""
    of_ranks = [
        json.loads((folder / f"rank{rank}.json").read_text(encoding="utf-8"))["iterations"] for rank in range(ranks)
    ]
    start_s, end_s = (np.array([columns[name] for columns in of_ranks]) for name in ("start_s", "end_s"))
    return float(np.median(iteration_times_s(start_s, end_s)[SCHEDULE.counted]))


def _written(record: GpuRecord, out: Path, begin: float, progress: Progress) -> GpuSpec:
    import yaml

    fit = fit_gpus(record, out.stem, progress)
    profile = None
    if fit.framework is not None:
        profile = out.with_name(f"{out.stem}_trainer.yaml")
        text = fitted_profile(FRAMEWORK, profile.stem, record.source, fit.framework)
        file_written_whole(profile, text)
    text = yaml.safe_dump(fit.cluster.to_dict(), sort_keys=False, allow_unicode=True, width=120)
    file_written_whole(out, text)
    return GpuSpec(fit, out, profile, time.perf_counter() - begin)
