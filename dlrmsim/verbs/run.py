"""What dlrmsim does, as functions: the command line calls these, and so can any Python program.

    >>> import dlrmsim
    >>> scenario = dlrmsim.load_scenario("zionex_a_128", ["nodes=32"])
    >>> finished = dlrmsim.run(scenario, dlrmsim.RunRequest(report=False))
    >>> finished.summary["iteration_time_s"]

The only place that knows both results and pages, and that decides where files go.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from dlrmsim.output.folders import folder_written_whole, require_replaceable
from dlrmsim.output.results import write_results
from inputs.errors import InputError
from scenarios.progress import Progress, Silent
from scenarios.resolve import ResolvedScenario, load_scenario
from scenarios.runner import Outcome, check, simulate

__all__ = [
    "Finished",
    "RunRequest",
    "check",
    "load_scenario",
    "parse_ranks",
    "run",
    "scenario_template",
    "write_scenario_template",
]

RUNS_FOLDER = Path("runs")
"""Where results go unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to write of a run.

    Attributes:
        out: output folder; default ``runs/NAME-HASH8``.
        ranks: ranks whose timelines are traced and shown first; default: slowest, fastest, median and first.
        report: whether to write ``report.html``.
    """

    out: Path | None = None
    ranks: tuple[int, ...] | None = None
    report: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """A run whose results are written."""

    folder: Path
    outcome: Outcome

    @property
    def summary(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return self.outcome.summary


def run(resolved: ResolvedScenario, request: RunRequest | None = None, progress: Progress | None = None) -> Finished:
    """Simulate a scenario and write its output folder, whole or not at all.

    Raises:
        InputError: a rank asked for does not exist, the output folder holds something else, or the models refuse the
            scenario.
        InfeasibleError: the job does not fit into the memory of the GPUs, or the run into this machine.
    """
    request, progress = request or RunRequest(), progress or Silent()
    folder = request.out or RUNS_FOLDER / f"{resolved.name}-{resolved.hash[:8]}"
    _check_ranks(request.ranks, resolved.world_size)
    require_replaceable(folder)
    begin = time.perf_counter()
    outcome = simulate(resolved, progress)
    simulated = time.perf_counter()
    with folder_written_whole(folder) as partial:
        write_results(
            partial,
            outcome,
            asked_ranks=request.ranks or (),
            report=request.report,
            wall_s={"simulate": simulated - begin},
            progress=progress,
        )
    return Finished(folder, outcome)


def parse_ranks(text: str | None) -> tuple[int, ...] | None:
    """The ranks in ``0,5,9``, ascending, each once; None for None.

    Raises:
        InputError: it is no such list.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise InputError("not a list of ranks", file="--ranks", given=text, expected="numbers and commas, e.g. 0,5,9")
    return tuple(sorted({int(part) for part in parts}))


def scenario_template() -> str:
    """A scenario with every key and comments."""
    return files("scenarios").joinpath("template.yaml").read_text(encoding="utf-8")


def write_scenario_template(file: Path) -> None:
    """Create a file with `scenario_template`.

    Raises:
        InputError: it exists, or cannot be created.
    """
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(scenario_template())
    except FileExistsError:
        raise InputError("exists; nothing was written", file=file, expected="the name of a new file") from None
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror}", file=file) from None


def _check_ranks(ranks: Sequence[int] | None, world_size: int) -> None:
    missing = [rank for rank in ranks or () if rank >= world_size]
    if missing:
        raise InputError("no such rank", file="--ranks", given=missing[0], expected=f"0 to {world_size - 1}")
