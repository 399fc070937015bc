"""``sweep``: simulate a scenario with many values of its keys, and write a table and a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dlrmsim.output.folders import RUNS_FOLDER, folder_written_whole, replaceable
from dlrmsim.output.kept import kept_results
from dlrmsim.output.record import write_record
from dlrmsim.pages.scaling import scaling_study
from dlrmsim.verbs.what import Name
from dlrmsim.workers import workers_map
from reports.scaling_report import render_scaling
from reports.scaling_study import ScalingStudy
from scenarios.progress import Progress
from scenarios.sweep import run_sweep
from scenarios.sweep_plan import Scaling, SweepPlan, plan_sweep

if TYPE_CHECKING:  # loaded by whoever asks for the table
    import pandas as pd

PAGE_FILE = "scaling.html"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep whose files are written.

    Attributes:
        folder: its output folder.
        plan: lines and points.
        study: points with their results.
        taken_over: number of points that an interrupted run had simulated.
    """

    folder: Path
    plan: SweepPlan
    study: ScalingStudy
    _rows: Sequence[Mapping[str, object]]
    taken_over: int = 0

    @property
    def warnings(self) -> Mapping[int, Sequence[str]]:
        """Warnings on the results, by world size; of all points of a size together."""
        found: dict[int, dict[str, None]] = {}
        for point in self.study.ordered:
            found.setdefault(point.world_size, {}).update(dict.fromkeys(point.warnings))
        return {size: tuple(warnings) for size, warnings in found.items()}

    @property
    def table(self) -> pd.DataFrame:
        """A row per point, line by line along the axis, as ``sweep.parquet`` has them."""
        import pandas as pd

        return pd.DataFrame(list(self._rows))

    def to_dict(self) -> Mapping[str, object]:
        """Name, scaling, values and rows, as ``sweep --json`` prints them."""
        over = {axis.key: list(axis.values) for axis in self.plan.grid.axes}
        return {"name": self.plan.base.name, "scaling": self.plan.scaling, "over": over, "points": list(self._rows)}


def sweep(
    what: Name,
    *,
    over: str | Sequence[str],
    scaling: Scaling | None = None,
    settings: Sequence[str] = (),
    workers: int | None = None,
    executor: str | None = None,
    out: Name | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate every combination of values and write ``sweep.parquet`` and ``scaling.html``.

    Finished points are kept until then (`dlrmsim.output.kept`): an interrupted sweep goes on with them.

    Args:
        over: values of a key, such as ``nodes=1,2,4,...,512``, or several such lists, whose combinations are simulated.
            The number of nodes or ranks is the axis, else the last key whose values are numbers; the other keys make
            lines.
        scaling: ``weak`` (default) keeps the local batch, ``strong`` the global one; only where a size is swept and
            the batch is not.
        settings: ``KEY=VALUE`` each.
        workers: processes; default one per core, at most one per point. The results do not depend on it.
        executor: ``dask://HOST:PORT`` of a dask scheduler to use instead of processes.
        out: output folder; default ``runs/NAME-KEYS-SCALING-HASH8``; KEYS are swept keys but the size.
        fresh: whether to simulate points again that an interrupted run had simulated.

    Raises:
        InputError: the scenario or a value is wrong, the folder holds something else, or the executor is no address.
        MissingExtraError: dask is asked for and not installed.
    """
    plan = plan_sweep(what, over, scaling, settings)
    folder = replaceable(RUNS_FOLDER / _name(plan) if out is None else out)
    with kept_results(folder, fresh=fresh) as kept:
        run_all = kept.mapped(workers_map(executor, workers, plan.simulated), dict, dict)
        rows = run_sweep(plan, run_all, kept.shown(progress))
        study = scaling_study(plan, rows)
        with folder_written_whole(folder) as partial:
            _write_parquet(partial / "sweep.parquet", rows)
            (partial / PAGE_FILE).write_text(render_scaling(study), encoding="utf-8")
            write_record(partial, {"taken_over": kept.taken_over})
    return SweepResult(folder, plan, study, rows, kept.taken_over)


def _name(plan: SweepPlan) -> str:
    """Name of the output folder: scenario, swept keys but the size, scaling and hash."""
    keys = (re.sub(r"\W+", "_", plan.grid.short(axis)) for axis in plan.grid.axes if not axis.is_size)
    return "-".join((plan.base.name, *keys, *filter(None, [plan.scaling]), plan.base.hash[:8]))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    pq.write_table(table, path, compression="zstd")
