"""Random programs of transformers: pipelines with messages, several exchanges at once, replicas in step.

`benchmarks.random_programs` draws lowered programs of any shape; these are lowered from jobs, where replicas are alike
and where groups lie over nodes at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from benchmarks.random_programs import ChoiceSource, RandomProgram
from hardware_specs import load_cluster
from simulator.lowering import Machine, Variation, build_machine, lower
from simulator.program import TaskGraph
from workloads.transformer.architecture import Transformer
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.settings import ParallelSizes, TransformerSettings

T = TypeVar("T")

MODEL = Transformer(
    name="tiny", title="a tiny decoder", layers=4, hidden=1024, heads=8, ffn=4096, vocabulary=5000, sequence=256,
    tied=True,
)  # fmt: skip
"""A model whose parts take about as long as its exchanges; deeper where stages need more layers."""

CLUSTERS = ("dgx_h100", "aws_p4d", "polaris", "fat_tree_16k")
"""A NIC for each GPU, for two, a dragonfly, and spine links that are oversubscribed."""

GROUPS: Sequence[Mapping[str, int]] = (
    {"data": 4}, {"data": 2, "tensor": 2}, {"data": 3, "tensor": 4}, {"data": 2, "pipeline": 2},
    {"data": 2, "tensor": 2, "pipeline": 2}, {"data": 3, "tensor": 2, "pipeline": 2}, {"tensor": 2, "pipeline": 4},
    {"data": 2, "context": 2, "pipeline": 3}, {"data": 2, "tensor": 2, "context": 2}, {"data": 2, "pipeline": 6},
)  # fmt: skip
"""Sizes of groups of 4 to 12 ranks."""


@dataclass(frozen=True, slots=True)
class TransformerJob:
    """A job and its machine.

    Attributes:
        jitter: standard deviation of kernels and hosts over their mean; above 0 no replicas are in step.
    """

    settings: TransformerSettings
    machine: Machine
    jitter: float

    @property
    def graph(self) -> TaskGraph:
        """Its programs."""
        return iteration_graph(self.settings)

    def random_program(self) -> RandomProgram:
        """Three iterations of it: the distributed optimizer's gathers end in the next one."""
        variation = Variation(seed=1, compute_jitter=self.jitter, host_jitter=self.jitter)
        return RandomProgram(lower(self.graph, self.machine, variation=variation).program, 3)


def draw_job(choices: ChoiceSource, *, jitters: Sequence[float] = (0.0, 0.0, 0.1)) -> TransformerJob:
    """A job with any groups, sharding and order of micro-batches."""
    groups = _one_of(choices, GROUPS)
    pipeline = groups.get("pipeline", 1)
    sharding: Literal["none", "optimizer", "fsdp", "hybrid"] = "none"
    if groups.get("data", 1) > 1:
        sharding = _one_of(choices, ("none", "optimizer", "fsdp", "hybrid"))
    if sharding == "hybrid" and groups["data"] % 2:
        sharding = "fsdp"
    sizes = ParallelSizes(
        data=groups.get("data", 1),
        tensor=groups.get("tensor", 1),
        context=groups.get("context", 1),
        pipeline=pipeline,
        sharding=sharding,
        shard_size=2 if sharding == "hybrid" else 1,
        virtual_stages=_one_of(choices, (1, 2)) if pipeline > 1 else 1,
        prefetch=choices.integer(0, 2),
        reshard=bool(choices.integer(0, 1)),
        context_exchange=_one_of(choices, ("all_gather", "ring")),
        sequence_parallel=(sequence_parallel := bool(choices.integer(0, 1))),
        overlap_tensor=sequence_parallel and bool(choices.integer(0, 1)),
    )
    model = MODEL.model_copy(update={"layers": max(MODEL.layers, sizes.pipeline * sizes.virtual_stages)})
    settings = TransformerSettings(model, 256, sizes=sizes, microbatches=pipeline * choices.integer(1, 2))
    cluster = _one_of(choices, CLUSTERS)
    placement: Literal["block", "random"] = _one_of(choices, ("block", "random"))
    machine = build_machine(load_cluster(cluster), sizes.world_size, launch_s=2e-6, placement=placement, seed=1)
    return TransformerJob(settings, machine, _one_of(choices, jitters))


def _one_of(choices: ChoiceSource, options: Sequence[T]) -> T:
    return options[choices.integer(0, len(options) - 1)]
