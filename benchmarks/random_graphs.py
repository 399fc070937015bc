"""Random task graphs with operators, for laws of transformations.

One or two programs on 1 to 8 ranks, with a host that launches kernels and collectives: element-wise kernels that pass
tensors to the next kernel, products, series of both, updates; collectives over all ranks or over groups of ranks, in
the same order on all members; a stream for collectives, in order or with several workers; kernels on two streams; a few
dependencies across streams and iterations. Ranks with different programs make the same collective calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from benchmarks.random_programs import ChoiceSource
from hardware_specs import load_cluster
from simulator.collective_calls import CollectiveCall, CollectiveOp
from simulator.lowering import Machine, build_machine
from simulator.operators import DenseOptimizer, Elementwise, Gemm, HostWork, Marker
from simulator.program import Program, ProgramBuilder, Stream, TaskGraph
from simulator.work import Kernel, KernelSeries, Operator

T = TypeVar("T")
HOST, DEFAULT, SIDE, COMM = "host", "default", "side", "comm"
OPS: tuple[CollectiveOp, ...] = ("all_reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = (1e3, 1e5, 4e6)
SECTIONS = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class _Shared:
    """A step that all members of a communicator take: the call, and the layer that it follows."""

    layer: int
    section: str
    call: CollectiveCall


def draw_graph(choices: ChoiceSource) -> TaskGraph:
    """A random task graph."""
    ranks = _one_of(choices, (1, 2, 4, 6, 8))
    every = np.arange(ranks)
    communicators = {"world": np.zeros_like(every), "pairs": every // 2}
    layers = choices.integer(1, 4)
    shared = [
        _Shared(layer, section, _call(choices, f"{_one_of(choices, list(communicators))}"))
        for section in SECTIONS
        for layer in range(layers)
        for _ in range(choices.integer(0, 1))
    ]
    cut = choices.integer(1, ranks - 1) if ranks > 1 and choices.integer(0, 2) == 0 else ranks
    workers = _one_of(choices, (1, 1, 2))
    groups = [every[:cut], every[cut:]] if cut < ranks else [every]
    programs = [_program(choices, f"group_{n}", own, layers, shared, workers) for n, own in enumerate(groups)]
    return TaskGraph(tuple(programs), communicators)


@cache
def machine_of(ranks: int) -> Machine:
    """A machine with a number of ranks."""
    return build_machine(load_cluster("dgx1_v100"), ranks, launch_s=3e-6)


def _call(choices: ChoiceSource, communicator: str) -> CollectiveCall:
    return CollectiveCall(_one_of(choices, OPS), communicator, _one_of(choices, SIZES), repeats=choices.integer(1, 2))


def _program(
    choices: ChoiceSource, name: str, ranks: Any, layers: int, shared: Sequence[_Shared], workers: int
) -> Program:
    builder = ProgramBuilder(name, ranks, [HOST, DEFAULT, SIDE, Stream(COMM, workers=workers)])
    last: dict[str, int] = {}
    tasks = [builder.task("begin", HOST, Marker(), section="forward")]
    for section in SECTIONS:
        for layer in range(layers):
            for kernel in range(choices.integer(1, 4)):
                stream = _one_of(choices, (DEFAULT, DEFAULT, DEFAULT, SIDE))
                tasks.append(_kernel(choices, builder, f"layer_{layer}_{section}_{kernel}", stream, section, tasks))
                last[stream] = tasks[-1]
            for number, step in enumerate(shared):
                if (step.layer, step.section) != (layer, section):
                    continue
                summed = f"layer_{layer}_{section}_sum_{number}"
                launch = builder.task(f"launch_{summed}", HOST, HostWork(1, 1e-6, collectives=1), section=section)
                after = [launch, *last.values()]
                tasks.append(builder.task(summed, COMM, step.call, after=after, section=section))
                if choices.integer(0, 1):
                    tasks.append(builder.task(f"wait_{summed}", DEFAULT, Marker(), after=[tasks[-1]], section=section))
    for task in tasks[1:]:
        if choices.integer(0, 7) == 0:
            builder.depend(task, _one_of(choices, tasks), lag=choices.integer(1, 2))
    return builder.build()


def _kernel(
    choices: ChoiceSource, builder: ProgramBuilder, name: str, stream: str, section: str, tasks: Sequence[int]
) -> int:
    work = _work(choices)
    launches = work.launches if isinstance(work, KernelSeries) else 1
    after = [_one_of(choices, tasks)] if choices.integer(0, 4) == 0 else []
    if choices.integer(0, 5):
        host = HostWork(launches, 2e-6 * launches)
        after.append(builder.task(f"launch_{name}", HOST, host, section=section))
    return builder.task(name, stream, work, after=after, section=section)


def _work(choices: ChoiceSource) -> Operator:
    kind = choices.integer(0, 9)
    if kind < 5:
        return _elementwise(choices)
    if kind < 7:
        return _gemm(choices)
    if kind < 9:
        count = choices.integer(1, 5)
        return KernelSeries("series", tuple((choices.integer(1, 2), _small_kernel(choices)) for _ in range(count)))
    return DenseOptimizer(1e6, 2e7)


def _small_kernel(choices: ChoiceSource) -> Kernel:
    return _elementwise(choices) if choices.integer(0, 2) else _gemm(choices)


def _elementwise(choices: ChoiceSource) -> Elementwise:
    size, passed = _one_of(choices, SIZES), choices.integer(0, 1)
    return Elementwise(
        2 * size, size, next_read_bytes=passed * size, next_only_bytes=passed * size * choices.integer(0, 1)
    )


def _gemm(choices: ChoiceSource) -> Gemm:
    m, n, k = (_one_of(choices, (64, 512, 2048)) for _ in range(3))
    return Gemm(m, n, k, "fp16", count=choices.integer(1, 2))


def _one_of(choices: ChoiceSource, options: Sequence[T]) -> T:
    return options[choices.integer(0, len(options) - 1)]


def draw_steps(choices: ChoiceSource, kind: str, graph: TaskGraph) -> Mapping[str, Any]:
    """Keys of a transformation of one kind; its pattern matches a task of the graph."""
    names = [name for program in graph.programs for name in program.names]
    layer = choices.integer(0, 3)
    patterns = ("*", "layer_*", f"layer_{layer}_*", "*_forward_*", "*_backward_*", "*sum*", _one_of(choices, names))
    keys: dict[str, Any] = {"tasks": _one_of(choices, patterns)}
    if kind == "decompose":
        keys |= {"into": _one_of(choices, (2, 3, "halves")), "beside": _one_of(choices, ("producers", "consumers"))}
    if kind == "move":
        keys |= {"to": _one_of(choices, (SIDE, DEFAULT, "another"))}
    if kind == "shard":
        keys |= {"over": _one_of(choices, ("world", "node")), "join": _one_of(choices, ("all_gather", "all_reduce"))}
    if kind == "recompute":
        keys |= {
            "before": _one_of(
                choices, ("*backward*", "layer_*_backward_*", f"layer_*_backward_{choices.integer(0, 2)}")
            ),
            "tasks": _one_of(choices, patterns[:4]),
        }
    return keys
