"""``python -m benchmarks accuracy --cluster SPEC``: random configurations, measured with the trainer and predicted.

Models, batches, plans, pipelines and numbers of ranks are drawn from a seed; nothing is picked by hand, and no
configuration that was measured is left out. A configuration is drawn anew, and counted, when its tables take more than
6 GiB or its iteration is predicted to last less than 5 ms or more than 3 s. Configurations are measured a few at a time
by turns, so that what drifts drifts for all of them; a launch waits a while until the host of a virtual machine leaves
the cores alone, and one during which that took more than a little of their time is made again. The median of the
launches' medians counts, each divided by how much slower the yardstick of its ranks was than when the machine was
calibrated (`validation.yardstick`). A row is written as each configuration ends; ``--resume`` goes on behind the last
one. ``--keep DIR`` keeps what the launches recorded; ``--again DIR`` predicts that anew, as after a change of the
machine's spec or of the model, and measures nothing.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path

import numpy as np
import yaml

from benchmarks.accuracy_table import METRICS, told
from benchmarks.calm import PATIENCE_S, wait_for_calm
from benchmarks.kept import ROWS, folder_of, kept_in
from benchmarks.rows import Row, append, read
from dlrmsim.verbs.measure import measure
from hardware_specs.cpu_kernels import PASSING
from inputs.errors import InfeasibleError, InputError
from scenarios.resolve import ResolvedScenario, load_scenario
from trainer.pin import usable_cores
from validation.measured import THREAD, Measured, Times, read_measured, spread_pct
from validation.measured_prediction import anywhere, as_then, predict, predict_measured, slower_than_then
from validation.random_jobs import Limits, random_job
from validation.yardstick import MOST_STOLEN, PIECES, STEP, longer

LEAST_S, MOST_S = 5e-3, 3.0
LIMITS = Limits(table_bytes=6 * 2**30)
BATCHES = 4
"""Made before each launch and taken in turn: making them takes longer than training."""
CONFIG, LAUNCH, SCENARIO = "config_", "launch_", "scenario.yaml"
"""A configuration's folder of ``--keep`` begins with the one, those of its launches in it with the other; beside them,
its scenario."""
DRAWN = "drawn.yaml"
"""The scenario that was drawn last."""
TOGETHER = 5
"""Configurations that are measured by turns."""
MOST_AS_OFTEN = 2
"""As was asked for: launches during which the host of a virtual machine took the cores away are made again."""
BUDGET_S = 3.0
"""Iterations of a launch last about so long together, within `LEAST_ITERATIONS` and `MOST_ITERATIONS`."""
LEAST_ITERATIONS, MOST_ITERATIONS = 12, 240
TIMED, FEWER_TIMED, LONG_S = 8, 4, 0.2
"""Iterations of a launch whose operators are timed, and of one whose iterations last so long."""
WARM_UP_S, LEAST_WARM_UP, MOST_WARM_UP = 1.0, 3, 10
"""The same of iterations before them."""
LAST_COLUMN = "stolen_launched"
"""Of rows: what was stolen of each launch, of those too that do not count."""
NEWEST = frozenset({LAST_COLUMN, f"{STEP}_slower", "passing_s"})
"""Columns that files of earlier versions lack."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked for: configurations, seed, machine, launches of each, file of rows, time, device, what to keep.

    ``device`` is cpu or cuda; ``keep`` a folder for what launches record, None: it is not kept; ``framework`` the
    profile that predicts, None: that of jobs drawn at random, or the one that was measured with.
    """

    configs: int
    seed: int
    cluster: str
    launches: int
    file: Path
    resume: bool
    minutes: float
    device: str = "cpu"
    keep: Path | None = None
    framework: str | None = None

    @property
    def first(self) -> dict[str, str]:
        """What says which study a row belongs to."""
        return {"seed": str(self.seed), "cluster": Path(self.cluster).stem}


def rows(study: Study) -> Iterator[Row]:
    """Measure what has not been measured, then the statistics over all configurations."""
    end = time.monotonic() + 60.0 * study.minutes
    done = _read(study)
    rejected = 0
    with folder_of(study.keep) as folder:
        batch: list[tuple[int, ResolvedScenario]] = []
        for number in range(study.configs):
            scenario, again = _drawn(study, number, folder)
            rejected += again
            if str(number) in done:
                continue
            batch.append((number, scenario))
            if len(batch) == TOGETHER or number == study.configs - 1:
                if time.monotonic() > end:
                    break
                _check_columns(study.file)
                for row in _measured_by_turns(batch, study, folder):
                    append(study.file, [row])
                    append(folder / f"{CONFIG}{row['config']}" / ROWS, [row])
                    done[row["config"]] = row
                    yield Row(f"config_{row['config']}_error", float(row["iteration_error_pct"]), "%")
                batch = []
    yield Row("accuracy_configs", len(done), "configurations")
    yield Row("accuracy_drawn_anew", rejected, "configurations")
    yield from told(list(done.values()))


def again(folder: Path, study: Study, out: Path | None) -> Iterator[Row]:
    """The same statistics over the launches that a study kept, predicted anew on a machine; nothing is measured.

    Args:
        folder: of the study's ``--keep``.
        study: on which machine; what else it asks for counts for nothing.
        out: file to append rows to, if any.

    Raises:
        InputError: nothing is kept there, or the file has other columns.
    """
    done = []
    for kept in kept_launches(folder, study.cluster):
        known = replace(study, seed=kept.seed, launches=kept.counted)
        done.append(_row_of(known, kept.number, kept.scenario, kept.launches))
        if out is not None:
            append(out, done[-1:])
        yield Row(f"config_{kept.number}_error", float(done[-1]["iteration_error_pct"]), "%")
    yield from told(done)


@dataclass(frozen=True, slots=True)
class Kept:
    """A configuration that a study kept.

    Attributes:
        number: its number.
        seed: of the study.
        counted: launches that count.
        scenario: what was measured, on the machine that predicts.
        launches: all that were made, some of them anew.
    """

    number: int
    seed: int
    counted: int
    scenario: ResolvedScenario
    launches: Sequence[Measured]


def kept_launches(folder: Path, cluster: str) -> Iterator[Kept]:
    """Configurations that a study kept, in their order.

    Args:
        folder: of the study's ``--keep``.
        cluster: name or path of the machine that is to predict.

    Raises:
        InputError: nothing is kept there, or the machine cannot run it.
    """
    for number, of_config in kept_in(folder, CONFIG).items():
        (then,) = read(of_config / ROWS)[1]
        yield Kept(
            number,
            int(then["seed"]),
            int(then["launches"]),
            load_scenario(of_config / SCENARIO, [f"cluster={anywhere(cluster)}"]),
            [read_measured(of_config / f"{LAUNCH}{launch}") for launch in range(int(then["launched"]))],
        )


def _check_columns(file: Path) -> None:
    """Refuse a file that rows of today cannot be appended to, before they are measured."""
    if file.is_file() and not set(read(file)[0]) >= NEWEST:
        raise InputError("rows of another version", file=file, expected="another file (--out)")


def _drawn(study: Study, number: int, folder: Path) -> tuple[ResolvedScenario, int]:
    """The configuration of a number, and how many were drawn before one that can be measured."""
    random = np.random.default_rng([study.seed, number])
    for again in range(1000):
        ranks = None if study.device == "cpu" else int(random.choice(_ranks_on_gpus()))
        given = random_job(random, f"random_{study.seed}_{number}", anywhere(study.cluster), ranks)
        if study.framework is not None:
            given["workload"]["framework"] = anywhere(study.framework)
        file = folder / DRAWN
        file.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
        if not LIMITS.allow(given):
            continue
        resolved = load_scenario(file)
        try:
            if LEAST_S <= predict(resolved).iteration_s <= MOST_S:
                return resolved, again
        except InfeasibleError:
            continue
    raise RuntimeError("no configuration can be measured on this machine")


def _ranks_on_gpus() -> list[int]:
    """Numbers of ranks for which there are GPUs.

    Raises:
        InputError: there is none.
    """
    from trainer.gpus import gpu_count

    allowed = [ranks for ranks in (1, 2, 4) if ranks <= gpu_count()]
    if not allowed:
        raise InputError("no GPU that PyTorch can use", file="--device", given="cuda", expected="cpu")
    return allowed


def _measured_by_turns(
    batch: Sequence[tuple[int, ResolvedScenario]], study: Study, folder: Path
) -> Iterator[dict[str, str]]:
    """Launch each configuration so many times by turns, and again for launches that were disturbed; a row each."""
    found: dict[int, list[Measured]] = {number: [] for number, _ in batch}
    folders = {number: folder / f"{CONFIG}{number}" for number, _ in batch}
    for number, scenario in batch:
        _make_anew(folders[number], scenario)
    for launch in range(MOST_AS_OFTEN * study.launches):
        for number, scenario in batch:
            if sum(map(_is_undisturbed, found[number])) >= study.launches:
                continue
            out = folders[number] / f"{LAUNCH}{launch}"
            expected_s = predict(scenario).iteration_s
            iterations = int(np.clip(BUDGET_S / expected_s, LEAST_ITERATIONS, MOST_ITERATIONS))
            wait_for_calm(usable_cores(), PATIENCE_S)
            measure(
                folders[number] / SCENARIO,
                iterations=iterations,
                device=study.device,
                timed=TIMED if expected_s < LONG_S else FEWER_TIMED,
                profiled=0,
                batches=BATCHES,
                repeated_weights=True,
                warm_up=int(np.clip(WARM_UP_S / expected_s, LEAST_WARM_UP, MOST_WARM_UP)),
                out=out,
            )
            found[number].append(read_measured(out))
    for number, scenario in batch:
        yield _row_of(study, number, scenario, found[number])


def _make_anew(folder: Path, scenario: ResolvedScenario) -> None:
    """The folder of a configuration without the launches of another study, or of this one when it was stopped."""
    (folder / ROWS).unlink(missing_ok=True)
    for launch in folder.glob(f"{LAUNCH}*"):
        shutil.rmtree(launch)
    folder.mkdir(exist_ok=True)
    (folder / SCENARIO).write_text(scenario.to_yaml(), encoding="utf-8")


def _row_of(study: Study, number: int, scenario: ResolvedScenario, found: Sequence[Measured]) -> dict[str, str]:
    predicted = predict_measured(found[0], study.cluster, framework=study.framework)
    every = " ".join(f"{_stolen(launch):.3f}" for launch in found)
    row = _row(study, number, scenario, undisturbed_first(found)[: study.launches], predicted)
    return {**row, "launched": str(len(found)), LAST_COLUMN: every}


def undisturbed_first(launches: Sequence[Measured]) -> list[Measured]:
    """Those of which the host of a virtual machine took hardly anything in their order, then the others by how much."""
    return sorted(launches, key=lambda launch: max(MOST_STOLEN, _stolen(launch)))


def _is_undisturbed(launch: Measured) -> bool:
    return _stolen(launch) <= MOST_STOLEN


def _stolen(launch: Measured) -> float:
    return float(launch.summary["stolen_share"])


def _row(
    study: Study,
    number: int,
    scenario: ResolvedScenario,
    launches: Sequence[Measured],
    predicted: Times,
) -> dict[str, str]:
    workload = scenario.scenario.workload
    row = {
        **study.first,
        "config": str(number),
        "ranks": str(scenario.world_size),
        "batch": str(scenario.global_batch_size),
        "pipeline": str(workload.pipeline),
        "planner": str(workload.sharding.planner),
        "optimizers": f"{workload.optimizer.dense}, {workload.optimizer.tables}",
        "tables": str(sum(1 for _ in scenario.model.tables.value)) if scenario.model.tables else "",
        "launches": str(len(launches)),
        "load": json.dumps([warning for warning in launches[0].summary["warnings"] if "busy" in warning]),
    }
    pieces = [(measured.times.yardstick_s, predicted.yardstick_s) for measured in launches]
    slower = [slower_than_then(measured.times, predicted) for measured in launches]
    row["slower"] = " ".join(f"{by:.3f}" for by, _ in slower)
    row["stolen"] = " ".join(f"{_stolen(measured):.3f}" for measured in launches)
    row["iterations_s"] = " ".join(f"{measured.times.iteration_s:.5g}" for measured in launches)
    for piece in (*PIECES, STEP):
        row[f"{piece}_slower"] = " ".join(f"{by[piece]:.4f}" for by in starmap(longer, pieces) if piece in by)
    row["lookups_slower"] = " ".join(f"{by:.4f}" for _, by in slower)
    row["passing_s"] = " ".join(f"{now_s[PASSING]:.3g}" for now_s, _ in pieces if PASSING in now_s)
    told_s = [as_then(measured.times, predicted) for measured in launches]
    for metric in METRICS:
        seconds = [_value(times, metric) for times in told_s]
        expected = _value(predicted, metric)
        if expected is None or any(value is None for value in seconds):
            row |= {f"{metric}_{name}": "" for name in ("measured_s", "predicted_s", "error_pct", "noise_pct")}
            continue
        even = np.array([value for value in seconds if value is not None])
        middle = float(np.median(even))
        noise = spread_pct(even) if len(even) > 1 else launches[0].noise_pct.get(metric, 0.0)
        row |= {
            f"{metric}_measured_s": f"{middle:.6g}",
            f"{metric}_predicted_s": f"{expected:.6g}",
            f"{metric}_error_pct": f"{100.0 * (expected / middle - 1.0):.2f}" if middle > 0 else "",
            f"{metric}_noise_pct": f"{noise:.2f}",
        }
    return row


def _value(times: Times, metric: str) -> float | None:
    if metric == "iteration":
        return times.iteration_s
    return times.thread_s if metric == THREAD else times.classes_s.get(metric)


def _read(study: Study) -> dict[str, dict[str, str]]:
    """Rows of this study that are there already, by configuration."""
    if not study.resume or not study.file.is_file():
        return {}
    return {
        row["config"]: row
        for row in read(study.file)[1]
        if all(row[key] == value for key, value in study.first.items()) and int(row["config"]) < study.configs
    }
