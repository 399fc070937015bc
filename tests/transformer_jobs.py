"""Transformers that tests share: a small model on H100 nodes, with or without time for messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from scenarios.machine import machine_of
from scenarios.resolve import load_scenario
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowered import PS_PER_S
from simulator.lowering import Machine, lower
from simulator.program import Program, TaskGraph
from workloads.transformer.architecture import Transformer
from workloads.transformer.iteration import iteration_graph
from workloads.transformer.settings import ParallelSizes, TransformerSettings

MODEL = Transformer(
    name="small", title="a small decoder", layers=16, hidden=4096, heads=32, kv_heads=8, ffn=16384, vocabulary=8,
    sequence=2048, gated=True, norm="rms", biases=False, positions="rotary", final_norm=False,
)  # fmt: skip
"""A decoder whose embedding and output take next to no time."""


def job(sizes: ParallelSizes, **changes: Any) -> TransformerSettings:
    """Settings of the small model."""
    return TransformerSettings(**{"model": MODEL, "sequence": 2048, "sizes": sizes, **changes})


@cache
def machine(world_size: int) -> Machine:
    """Nodes of eight H100."""
    settings = ["nodes=null", f"world_size={world_size}", "cluster=dgx_h100"]
    return machine_of(load_scenario("zionex_a_dgx_h100_128", settings))


def span_s(settings: TransformerSettings, *, free: bool = False, section: str = "") -> float:
    """Seconds from the first to the last kernel of an iteration, or of one section of it.

    Args:
        free: exchanges and launches take no time.
    """
    graph = iteration_graph(settings)
    improve = {"communication": 1e6, "host": 1e6} if free else {}
    lowering = lower(graph, machine(settings.sizes.world_size), improve=improve)
    groups = run(lowering.program, RunOptions(max_iterations=2, keep_last=1)).records[-1].groups
    starts, ends = [], []
    for program, times in zip(graph.programs, groups, strict=True):
        tasks = np.array([task for task in kernels(program) if section in program.sections[task]])
        starts.append(times.start_ps[tasks].min())
        ends.append(times.end_ps[tasks].max())
    return float(max(ends) - min(starts)) / PS_PER_S


def kernels(program: Program) -> Iterator[int]:
    """Tasks of the default stream that belong to passes."""
    for task, stream in enumerate(program.stream_of.tolist()):
        if program.streams[stream].name == "default" and program.sections[task] != "optimizer":
            yield task


def calls(graph: TaskGraph, op: str, *communicators: str) -> list[CollectiveCall]:
    """Calls of an operation on communicators in the first program."""
    found = [work for work in graph.programs[0].work if isinstance(work, CollectiveCall)]
    return [call for call in found if call.op == op and call.communicator in communicators]
