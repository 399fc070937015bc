"""Sweeps: run a plan in processes, and write its table and page whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.api import RUNS_FOLDER
from dlrmsim.environment import environment
from dlrmsim.outputs import RECORD_FILE, TOOL, folder_written_whole, require_replaceable
from dlrmsim.results import write_json
from inputs.errors import InputError, MissingExtraError
from reports.scaling_report import ScalingPoint, ScalingStudy, render_scaling
from scenarios.progress import Progress
from scenarios.sweep import Map, Row, SweepPlan, SweepPoint, one_after_the_other, plan_sweep, run_sweep

__all__ = ["Swept", "plan_sweep", "sweep"]

_DASK = "dask://"


@dataclass(frozen=True, slots=True)
class Swept:
    """A sweep whose results are written."""

    folder: Path
    study: ScalingStudy
    rows: list[Row]


def sweep(
    plan: SweepPlan,
    *,
    out: Path | None = None,
    workers: int | None = None,
    executor: str | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Simulate every size of ``plan`` and write ``sweep.parquet`` and ``scaling.html``.

    Args:
        plan: from `plan_sweep`.
        out: output folder; default ``runs/NAME-SCALING-HASH8``.
        workers: processes; default one per core, at most one per size. The results do not depend on it.
        executor: ``dask://HOST:PORT`` of a dask scheduler to use instead of processes.
        progress: told how many sizes are done.

    Raises:
        InputError: the folder holds something else, or the executor is no address.
        MissingExtraError: dask is asked for and not installed.
    """
    folder = out or RUNS_FOLDER / f"{plan.base.name}-{plan.scaling}-{plan.base.hash[:8]}"
    require_replaceable(folder)
    rows = run_sweep(plan, _map(executor, workers, len(plan.points)), progress)
    study = _study(plan, rows)
    with folder_written_whole(folder) as partial:
        _write_parquet(partial / "sweep.parquet", rows)
        (partial / "scaling.html").write_text(render_scaling(study), encoding="utf-8")
        files = sorted([RECORD_FILE, "sweep.parquet", "scaling.html"])
        write_json(partial / RECORD_FILE, {"tool": TOOL, "files": files, **environment()})
    return Swept(folder, study, rows)


def _map(executor: str | None, workers: int | None, points: int) -> Map:
    if executor is not None:
        return _Dask(executor)
    count = min(workers or os.cpu_count() or 1, points)
    return _Processes(count) if count > 1 else one_after_the_other


@dataclass(frozen=True, slots=True)
class _Processes:
    """Worker processes of this machine; an interrupt ends them all."""

    count: int

    def __call__(
        self, function: Callable[[SweepPoint], Row], points: Sequence[SweepPoint]
    ) -> Iterator[tuple[int, Row]]:
        with ProcessPoolExecutor(self.count, mp_context=get_context("spawn"), initializer=_leave_interrupts) as pool:
            # the largest first: they take longest
            order = sorted(range(len(points)), key=lambda n: -points[n].size)
            futures = {pool.submit(function, points[n]): n for n in order}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BaseException:
                _end(pool)
                raise


def _leave_interrupts() -> None:
    """Ctrl-C is the parent's to handle; it ends the workers."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end(pool: ProcessPoolExecutor) -> None:
    """End workers at once instead of waiting for what they do."""
    for process in list((pool._processes or {}).values()):  # noqa: SLF001 - public from Python 3.14 (kill_workers)
        process.kill()
    pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Dask:
    """A dask cluster whose workers have dlrmsim installed."""

    address: str

    def __call__(
        self, function: Callable[[SweepPoint], Row], points: Sequence[SweepPoint]
    ) -> Iterator[tuple[int, Row]]:
        if not self.address.startswith(_DASK):
            raise InputError("not an executor", file="--executor", given=self.address, expected="dask://HOST:PORT")
        try:
            from distributed import Client
            from distributed import as_completed as done
        except ImportError:
            raise MissingExtraError("dask is not installed: pip install 'dlrmsim[cluster]'") from None
        try:
            client = Client(f"tcp://{self.address.removeprefix(_DASK)}", timeout="10s")
        except (OSError, ValueError) as error:
            raise InputError(f"no dask scheduler answers: {error}", file="--executor", given=self.address) from None
        with client:
            futures = {client.submit(function, point, pure=False): n for n, point in enumerate(points)}
            for future in done(futures):
                yield futures[future], future.result()


def _study(plan: SweepPlan, rows: Sequence[Row]) -> ScalingStudy:
    scenario = plan.base.scenario
    return ScalingStudy(
        name=f"{plan.base.name}, {plan.scaling} scaling",
        model=plan.base.model.name,
        cluster=plan.base.cluster.name,
        scaling=plan.scaling,
        points=tuple(_point(row) for row in rows),
        facts={"Framework": plan.base.framework.name, "Rows scaling": scenario.workload.rows_scaling},
        version=__version__,
    )


def _point(row: Row) -> ScalingPoint:
    parts = ("compute", "exposed_comm", "exposed_copy", "idle")
    ran: dict[str, Any] = {}
    if row["status"] == "ok":
        gains = {name.removeprefix("gain_"): gain for name, gain in row.items() if name.startswith("gain_")}
        names = ("iteration_time_s", "throughput_samples_per_s", "efficiency", "bound")
        ran = {name: row[name] for name in names}
        ran |= {"shares": {part: row[f"fraction_{part}"] for part in parts}, "gains": gains}
    return ScalingPoint(
        world_size=row["world_size"],
        nodes=row["nodes"],
        global_batch_size=row["global_batch_size"],
        status=row["status"],
        message=row["message"],
        **ran,
    )


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    pq.write_table(table, path, compression="zstd")
