"""Sweeps: run a plan in processes, and write its table and page whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlrmsim import __version__
from dlrmsim.output.environment import environment
from dlrmsim.output.folders import RECORD_FILE, TOOL, folder_written_whole, require_replaceable
from dlrmsim.output.results import write_json
from dlrmsim.verbs.run import RUNS_FOLDER
from dlrmsim.workers import workers_map
from reports.scaling_report import ScalingPoint, ScalingStudy, render_scaling
from scenarios.progress import Progress
from scenarios.sweep import Row, SweepPlan, plan_sweep, run_sweep

__all__ = ["Swept", "plan_sweep", "sweep"]


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
    rows = run_sweep(plan, workers_map(executor, workers, len(plan.points)), progress)
    study = _study(plan, rows)
    with folder_written_whole(folder) as partial:
        _write_parquet(partial / "sweep.parquet", rows)
        (partial / "scaling.html").write_text(render_scaling(study), encoding="utf-8")
        files = sorted([RECORD_FILE, "sweep.parquet", "scaling.html"])
        write_json(partial / RECORD_FILE, {"tool": TOOL, "files": files, **environment()})
    return Swept(folder, study, rows)


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
