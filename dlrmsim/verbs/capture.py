"""``capture``: record a training step of a user in PyTorch, on tensors without memory, as a job for any cluster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dlrmsim.hosts.machine import require_torch
from dlrmsim.output.captured_job import write_captured_job
from dlrmsim.output.captured_keys import checked_cluster
from dlrmsim.output.folders import RUNS_FOLDER, replaceable
from dlrmsim.verbs.what import Name
from inputs.errors import InputError, nearest_name
from inputs.quantities import MAX_RANKS
from scenarios.progress import Progress, Silent
from trainer.capture.examples import EXAMPLES
from trainer.capture.launch import run_capture
from trainer.capture.request import DEFAULT_FUNCTION, CaptureRequest
from workloads.captured.counts import counts_of
from workloads.captured.records import RecordedJob

CLUSTER = "dgx_h100"
"""Cluster of the scenario that is written, where none is named."""

_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """A captured job.

    Attributes:
        folder: with ``job.json`` and ``scenario.yaml``, which ``dlrmsim run`` takes.
        job: records of all ranks.
    """

    folder: Path
    job: RecordedJob

    @property
    def summary(self) -> dict[str, Any]:
        """Amounts of the job, see `workloads.captured.counts.counts_of`."""
        return counts_of(self.job)


def capture(
    what: Name,
    *,
    world_size: int,
    ranks: Sequence[int] | Literal["all"] | None = None,
    samples: int | None = None,
    indices: str | None = None,
    fuse: str | None = None,
    cluster: str = CLUSTER,
    out: Name | None = None,
    progress: Progress | None = None,
) -> CaptureResult:
    """Record the step of a function of a Python file, and write it with a scenario.

    The function is called as ``function(rank, world_size)`` and returns a step: a function without arguments, which is
    called once to warm up and once to be recorded. Nothing is computed, and no memory or GPU is needed.

    Args:
        what: ``FILE.py:FUNCTION``, or the name of an example that ships; without a function ``training_step``.
        world_size: ranks of the job.
        ranks: captured ranks; a rank between two of them repeats the lower one. None: all if some ranks differ.
        samples: samples of a step on each rank; None: the attribute ``samples`` of the step, if it has one.
        indices: law of lookups, see the key ``workload.indices``.
        fuse: ``none`` or ``elementwise``, see the key ``workload.fuse``.
        cluster: cluster of the scenario.
        out: output folder; default ``runs/FILE-captured``.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: file, function, step, an option or the output folder is wrong.
    """
    require_torch("capturing")
    file, function = _function_of(what)
    if not 1 <= world_size <= MAX_RANKS:
        raise InputError("no such size", file="--world-size", given=world_size, expected=f"1 to {MAX_RANKS:,}")
    if samples is not None and samples < 1:
        raise InputError("no such number of samples", file="--samples", given=samples, expected="1 or more")
    name = _NAME.sub("_", file.stem).strip("._-") or "job"
    request = CaptureRequest(
        path=str(file.absolute()),
        function=function,
        world_size=world_size,
        ranks=_ranks(ranks, world_size),
        samples_per_rank=samples,
        name=name,
    )
    asked = {"indices": indices, "fuse": fuse}
    keys = {key: value for key, value in asked.items() if value is not None}
    cluster = checked_cluster(cluster, world_size, keys)
    folder = replaceable(RUNS_FOLDER / f"{name}-captured" if out is None else out, report=False)
    progress = progress or Silent()
    progress.stage("loading PyTorch and the file")
    job = run_capture(request, lambda done, of: progress.stage(f"capturing rank {done} of {of}"))
    write_captured_job(folder, job, cluster, keys)
    return CaptureResult(folder, job)


def _function_of(what: Name) -> tuple[Path, str]:
    """File and function of ``FILE.py:FUNCTION``, or of an example.

    Raises:
        InputError: there is no such file or example.
    """
    text = str(what)
    head, colon, tail = text.rpartition(":")
    named = bool(colon) and tail.isidentifier()
    given = head if named else text
    file = Path(given).expanduser() if EXAMPLES.is_path(given) else EXAMPLES.find(given)
    if not file.is_file():
        names = [*EXAMPLES.names(), *(str(found) for found in file.parent.glob("*.py"))]
        raise InputError(
            "no such file",
            file=file,
            expected="FILE.py or FILE.py:FUNCTION, or an example of `dlrmsim list examples`",
            nearest=nearest_name(str(file), names),
        )
    return file, tail if named else DEFAULT_FUNCTION


def _ranks(ranks: Sequence[int] | str | None, world_size: int) -> tuple[int, ...] | None:
    """Ranks to capture, ascending.

    Raises:
        InputError: a rank does not exist, or rank 0 is missing.
    """
    if ranks is None:
        return None
    if isinstance(ranks, str):
        if ranks != "all":
            raise InputError("no such ranks", file="--ranks", given=ranks, expected="all, or numbers, e.g. 0,8")
        return tuple(range(world_size))
    found = tuple(sorted(set(ranks)))
    wrong = next((rank for rank in found if not 0 <= rank < world_size), None)
    if wrong is not None:
        raise InputError("no such rank", file="--ranks", given=wrong, expected=f"0 to {world_size - 1}")
    if not found or found[0] != 0:
        expected = "0 first: a rank that is not captured repeats the nearest captured rank below it"
        raise InputError("rank 0 is missing", file="--ranks", given=",".join(map(str, found)), expected=expected)
    return found
