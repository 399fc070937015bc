"""``sweep``: simulate a scenario at many sizes, and write its table and page."""

from __future__ import annotations

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
from reports.scaling_report import ScalingStudy, render_scaling
from scenarios.progress import Progress
from scenarios.sweep import Scaling, SweepPlan, plan_sweep, run_sweep

if TYPE_CHECKING:  # loaded by whoever asks for the table
    import pandas as pd

PAGE_FILE = "scaling.html"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep whose files are written.

    Attributes:
        folder: its output folder.
        plan: the sizes.
        study: the sizes with their results.
        rows: rows of ``sweep.parquet``, by ascending size.
        taken_over: number of sizes that an interrupted run had simulated.
    """

    folder: Path
    plan: SweepPlan
    study: ScalingStudy
    rows: Sequence[Mapping[str, object]]
    taken_over: int = 0

    @property
    def warnings(self) -> Mapping[int, Sequence[str]]:
        """Warnings on the results, by world size."""
        return {point.world_size: point.warnings for point in self.study.ordered}

    @property
    def table(self) -> pd.DataFrame:
        """A row per size, as ``sweep.parquet`` has them."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))


def sweep(
    what: Name,
    *,
    over: str,
    scaling: Scaling = "weak",
    settings: Sequence[str] = (),
    workers: int | None = None,
    executor: str | None = None,
    out: Name | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate every size and write ``sweep.parquet`` and ``scaling.html``.

    Finished sizes are kept until then (`dlrmsim.output.kept`): an interrupted sweep goes on with them.

    Args:
        over: sizes, such as ``nodes=1,2,4,...,512`` or ``world_size=1,2,4,8``.
        scaling: ``weak`` keeps the local batch, ``strong`` the global one.
        settings: ``KEY=VALUE`` each.
        workers: processes; default one per core, at most one per size. The results do not depend on it.
        executor: ``dask://HOST:PORT`` of a dask scheduler to use instead of processes.
        out: output folder; default ``runs/NAME-SCALING-HASH8``.
        fresh: whether to simulate sizes again that an interrupted run had simulated.

    Raises:
        InputError: the scenario or a size is wrong, the folder holds something else, or the executor is no address.
        MissingExtraError: dask is asked for and not installed.
    """
    plan = plan_sweep(what, over, scaling, settings)
    base = plan.base
    folder = replaceable(RUNS_FOLDER / f"{base.name}-{scaling}-{base.hash[:8]}" if out is None else out)
    with kept_results(folder, fresh=fresh) as kept:
        run_all = kept.mapped(workers_map(executor, workers, len(plan.points)), dict, dict)
        rows = run_sweep(plan, run_all, kept.shown(progress))
        study = scaling_study(plan, rows)
        with folder_written_whole(folder) as partial:
            _write_parquet(partial / "sweep.parquet", rows)
            (partial / PAGE_FILE).write_text(render_scaling(study), encoding="utf-8")
            write_record(partial, {"taken_over": kept.taken_over})
    return SweepResult(folder, plan, study, rows, kept.taken_over)


def _write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in columns})
    pq.write_table(table, path, compression="zstd")
