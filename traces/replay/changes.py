"""Changes of a traced job before it is replayed: cluster, GPU, host, ranks, batch, overlap, delays, precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import load_cluster, load_gpu
from hardware_specs.processors import Gpu
from inputs.errors import InputError, nearest_name
from simulator.lowering import Machine, build_machine
from traces.replay.absent import with_late_absent_ranks
from traces.replay.batch import with_local_batch
from traces.replay.delays import delayed
from traces.replay.gpu import MethodShare, gpu_of_device, on_gpu
from traces.replay.host import with_cuda_graphs, with_host_speed, with_launches
from traces.replay.job import ReplayJob
from traces.replay.overlap import with_communication_hidden, without_overlap
from traces.replay.precision import in_precision
from traces.replay.ranks import at_world_size, with_clones

Absent = Literal["none", "clones", "late"]
Overlap = Literal["as_traced", "none", "hidden"]

_OVERLAPS: Mapping[str, Callable[[ReplayJob], ReplayJob]] = {
    "none": without_overlap,
    "hidden": with_communication_hidden,
}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a job against its measurement.

    Attributes:
        cluster: the cluster that takes the collectives; None: transfers as measured.
        gpu: the GPU that takes the kernels; None: kernels as measured.
        from_gpu: the GPU of the trace; None: by its name in the trace.
        world_size: ranks of the job, None: as traced.
        local_batch: samples of each rank, None: as traced.
        absent: ranks without a trace: left out, clones of the traced ones, or known only by their arrivals; None:
            clones on a cluster or another world size, else left out.
        overlap: factor on the overlap of device work.
        delays_s: lateness of ranks in each step, seconds.
        precisions: type by operation of collectives, ``all`` for the others.
        host_speed: factor on the speed of host work.
        launches: factor on host work that ends in a launch.
        cuda_graphs: whether launches between two waits of a thread are one CUDA graph.

    Raises:
        InputError: a word of `absent` or `overlap` is unknown.
    """

    cluster: str | Path | None = None
    gpu: str | Path | None = None
    from_gpu: str | Path | None = None
    world_size: int | None = None
    local_batch: int | None = None
    absent: Absent | None = None
    overlap: Overlap = "as_traced"
    delays_s: Mapping[int, float] = field(default_factory=dict)
    precisions: Mapping[str, str] = field(default_factory=dict)
    host_speed: float = 1.0
    launches: float = 1.0
    cuda_graphs: bool = False

    @property
    def any(self) -> bool:
        """Whether anything is other than measured."""
        return self != Changes()

    def __post_init__(self) -> None:
        """Check the words."""
        for name, word, kind in (("--absent", self.absent, Absent), ("--overlap", self.overlap, Overlap)):
            words = get_args(kind)
            if word is not None and word not in words:
                expected, near = f"one of {', '.join(words)}", nearest_name(word, words)
                raise InputError("is none of its words", file=name, given=word, expected=expected, nearest=near)

    def machine(self, world_size: int) -> Machine | None:
        """The cluster for a number of ranks; None: transfers as measured."""
        return None if self.cluster is None else build_machine(load_cluster(self.cluster), world_size, launch_s=0.0)


def changed(job: ReplayJob, changes: Changes) -> tuple[ReplayJob, tuple[MethodShare, ...]]:
    """The job with every change, and how its kernels came to another GPU.

    Raises:
        InputError: a change is impossible.
    """
    _require_effect(changes)
    whole = changes.cluster is not None or changes.world_size is not None
    absent = changes.absent or ("clones" if whole else "none")
    if absent == "late":
        job = with_late_absent_ranks(job)
    if changes.precisions:
        job = in_precision(job, changes.precisions)
    methods: tuple[MethodShare, ...] = ()
    if changes.gpu is not None:
        job, methods = on_gpu(job, _traced_gpu(job, changes), load_gpu(changes.gpu))
    if changes.local_batch is not None:
        gpu = _traced_gpu(job, changes) if changes.gpu is None else load_gpu(changes.gpu)
        job = with_local_batch(job, changes.local_batch, gpu)
    job = _with_host(job, changes)
    if changes.world_size is not None:
        job = at_world_size(job, changes.world_size)
    elif absent == "clones":
        job = with_clones(job)
    if changes.overlap in _OVERLAPS:
        job = _OVERLAPS[changes.overlap](job)
    return (delayed(job, changes.delays_s) if changes.delays_s else job), methods


def _require_effect(changes: Changes) -> None:
    """Refuse changes that need another change, or that have no effect with another change."""
    if changes.world_size is not None and changes.absent not in (None, "clones"):
        expected = "clones: all ranks at another world size are, and who arrives when is not known"
        raise InputError("does not go with --world-size", file="--absent", given=changes.absent, expected=expected)
    if changes.from_gpu is not None and changes.gpu is None and changes.local_batch is None:
        expected = "--gpu or --local-batch, which change kernels"
        raise InputError("has no effect", file="--from-gpu", given=str(changes.from_gpu), expected=expected)
    if changes.world_size is not None and changes.cluster is None:
        expected = "--cluster: transfers between other ranks were not measured"
        raise InputError("needs a network", file="--world-size", given=changes.world_size, expected=expected)


def _with_host(job: ReplayJob, changes: Changes) -> ReplayJob:
    """The job with the changes of its host; the launch times of CUDA graphs do not depend on the host's speed."""
    if changes.host_speed != 1.0:
        job = with_host_speed(job, changes.host_speed)
    if changes.launches != 1.0:
        job = with_launches(job, changes.launches)
    return with_cuda_graphs(job) if changes.cuda_graphs else job


def _traced_gpu(job: ReplayJob, changes: Changes) -> Gpu:
    return load_gpu(changes.from_gpu or gpu_of_device(job.source.device, CATALOGS["gpu"].names()))
