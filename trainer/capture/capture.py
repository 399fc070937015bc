"""Capture of a job: as many ranks as differ, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from inputs.errors import InputError
from trainer.capture.agreement import check_agreement
from trainer.capture.processes import in_processes
from trainer.capture.programs import job_of, signature
from trainer.capture.request import CaptureRequest
from trainer.capture.session import RankRecording, capture_rank, stand_ins
from trainer.capture.user_code import load_function, replaced_environment
from workloads.captured.records import RecordedJob

FEW_RANKS = 8
"""Ranks that are all captured."""
MOST_RANKS = 64
"""Most ranks that are captured one by one when ranks differ and nobody says which ones do."""


def capture(request: CaptureRequest, captured: Callable[[int, int], None]) -> RecordedJob:
    """Capture a job.

    Args:
        captured: called after each rank with the number of ranks so far and the expected number.

    Raises:
        InputError: the file, the function or the step is wrong, ranks differ and are too many, or they call different
            collectives.
    """
    mode = FakeTensorMode()
    with stand_ins():
        with mode, replaced_environment(0, request.world_size):
            function = load_function(request.file, request.function)

        def record(rank: int) -> RankRecording:
            return capture_rank(function, request.file, rank, request.world_size, mode)

        recordings = _recordings(request, record, captured)
    samples = request.samples_per_rank
    if samples is None:
        samples = _samples(recordings, request)
    job = job_of(
        recordings,
        name=request.name,
        source=f"{request.file.name}:{request.function}",
        torch=str(torch.__version__),
        world_size=request.world_size,
        samples=samples,
        tf32=recordings[0].tf32,
    )
    check_agreement(job, request.file)
    return job


def _recordings(
    request: CaptureRequest, record: Callable[[int], RankRecording], captured: Callable[[int, int], None]
) -> list[RankRecording]:
    """Recordings of the ranks asked for; by default of all if they are few or some differ, otherwise of some."""
    if request.ranks is not None:
        return list(in_processes(record, request.ranks, captured))
    size = request.world_size
    few = size <= FEW_RANKS
    wanted = list(range(size)) if few else sorted({0, 1, 2, 3, size // 2, size - 1})
    probes = list(in_processes(record, wanted, captured))
    groups = {tuple(recording.groups.communicators()) for recording in probes}
    if few or (len(groups) == 1 and len({signature(recording) for recording in probes}) == 1):
        return probes
    if size > MOST_RANKS:
        raise InputError(
            f"ranks issue different tasks, and {size} are too many to capture each",
            file=request.file,
            key="--ranks",
            expected="one rank of each kind, e.g. 0,8,16 (ranks 1 to 7 repeat rank 0); or all",
        )
    others = [rank for rank in range(size) if rank not in wanted]
    found = [*probes, *in_processes(record, others, captured)]
    return sorted(found, key=lambda recording: recording.rank)


def _samples(recordings: Sequence[RankRecording], request: CaptureRequest) -> int | None:
    """Samples of a rank that the step states: its attribute ``samples``, the mean over captured ranks."""
    found: list[Any] = [recording.samples for recording in recordings]
    if any(value is None for value in found):
        return None
    wrong = next((value for value in found if not isinstance(value, int) or value < 1), None)
    if wrong is not None:
        message = "samples of a step are no whole number"
        raise InputError(message, file=request.file, given=wrong, expected="1 or more")
    return round(sum(map(int, found)) / len(found))
