"""A DLRM-like run for the tests of the pages: real program, engine and analysis, invented amounts.

One iteration of a hybrid-parallel job: about 120 tasks on host, default, memcpy and comm, embedding work that differs
between ranks, two large all_to_alls and bucketed all_reduces, all over the world.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reports.findings import JobFacts, MemoryTier, Origin, RunFindings
from scenarios.levers import Lever, Levers
from simulator.analysis.bound import find_bound
from simulator.analysis.breakdown import break_down
from simulator.analysis.collectives import collective_table
from simulator.analysis.critical_path import critical_path
from simulator.analysis.metrics import iteration_time
from simulator.analysis.ranks import choose_ranks
from simulator.collective_calls import CollectiveCall
from simulator.engine import RunOptions, run
from simulator.lowered import Activity, ConstantDurations, LoweredGroup, LoweredProgram, phase
from simulator.operators import Copy, DenseOptimizer, EmbeddingLookup, EmbeddingUpdate, Gemm, HostWork, Interaction
from simulator.program import ProgramBuilder, TaskGraph

US = 1_000_000  # ps
LAYERS = 20
BUCKETS = 6


@dataclass
class _Sketch:
    """Collects tasks together with their durations in ps."""

    builder: ProgramBuilder
    durations: list
    alone: dict

    def kernel(self, name, stream, work, ps, section, after=()):
        launch = self.builder.task(f"launch {name}", "host", HostWork(launches=1.0), section=section)
        self.durations.append(6 * US)
        task = self.builder.task(name, stream, work, after=[launch, *after], section=section)
        self.durations.append(ps)
        return task

    def collective(self, name, op, size, ps, section, after):
        task = self.kernel(name, "comm", CollectiveCall(op, "world", size), 0, section, after)
        self.alone[task] = ps
        return task


def sample_graph(world_size: int, seed: int = 7) -> tuple[TaskGraph, LoweredProgram]:
    """The program of ``world_size`` ranks and its lowered form."""
    rng = np.random.default_rng(seed)
    skew = rng.lognormal(0.0, 0.12, world_size)
    builder = ProgramBuilder("train", np.arange(world_size), ["host", "default", "memcpy", "comm"])
    s = _Sketch(builder, [], {})
    gemm = Gemm(512.0, 3994.0, 3994.0, "tf32")
    copy = s.kernel("input_copy", "memcpy", Copy(9e6, "h2d"), 420 * US, "input")
    lengths = s.collective("input_dist_lengths", "all_to_all", 2e6, 390 * US, "input", [copy])
    values = s.collective("input_dist_values", "all_to_all", 61e6, 1900 * US, "input", [lengths])
    lookup = s.kernel("lookup", "default", _lookup(), (5200 * US * skew).astype(np.int64), "forward", [values])
    pooled = s.collective("output_dist", "all_to_all", 98e6, 14_000 * US, "forward", [lookup])
    for layer in range(LAYERS // 2):
        s.kernel(f"bottom_mlp_{layer}", "default", gemm, 160 * US, "forward")
    s.kernel("interaction", "default", Interaction(1e9, 3e8, 1e8, "tf32"), 340 * US, "forward", [pooled])
    for layer in range(LAYERS // 2):
        s.kernel(f"top_mlp_{layer}", "default", gemm, 160 * US, "forward")
    last = s.kernel("loss", "default", Interaction(1e3, 1e6, 1e6, "fp32"), 5 * US, "forward")
    buckets = []
    for layer in range(LAYERS // 2):
        last = s.kernel(f"top_mlp_{9 - layer}_backward", "default", gemm, 320 * US, "backward")
        if layer % 4 == 3:
            buckets.append(_bucket(s, len(buckets), last))
    back = s.kernel("interaction_backward", "default", Interaction(2e9, 6e8, 2e8, "tf32"), 650 * US, "backward")
    grads = s.collective("output_dist_backward", "all_to_all", 98e6, 14_000 * US, "backward", [back])
    for layer in range(LAYERS // 2):
        last = s.kernel(f"bottom_mlp_{9 - layer}_backward", "default", gemm, 320 * US, "backward")
        if layer % 4 == 3:
            buckets.append(_bucket(s, len(buckets), last))
    update = (7800 * US * skew).astype(np.int64)
    s.kernel("embedding_update", "default", _update(), update, "update", [grads])
    end = s.kernel("dense_optimizer", "default", DenseOptimizer(3e8, 3.6e9), 2800 * US, "update", buckets)
    builder.task("read_loss", "host", HostWork(seconds=2e-5), after=[last], section="update")
    s.durations.append(20 * US)
    builder.depend(copy, end, lag=2)
    graph = TaskGraph((builder.build(),), {"world": np.zeros(world_size, dtype=np.int64)})
    return graph, _lower(graph, s, world_size)


def _bucket(s, number, after):
    return s.collective(f"all_reduce_bucket_{number}", "all_reduce", 26e6, 870 * US, "backward", [after])


def _lookup():
    return EmbeddingLookup(lookups=1.2e7, row_bytes=2.2e9, output_bytes=9.5e7, index_bytes=1e8, tables=8.0)


def _update():
    return EmbeddingUpdate(1.2e7, 9e6, 9.5e7, 3.3e9, 7.2e7, 9e8, 8.0)


def _lower(graph, sketch, world_size):
    program = graph.programs[0]
    tasks = np.array(sorted(sketch.alone), dtype=np.int64)
    columns = [np.broadcast_to(np.asarray(d, dtype=np.int64), (world_size,)) for d in sketch.durations]
    instances = np.repeat(np.arange(len(tasks))[:, None], world_size, axis=1)
    group = LoweredGroup(
        program.name, program.ranks, program.streams, program.names, program.stream_of, program.dep_ptr,
        program.dep_task, program.dep_lag, ConstantDurations(np.stack(columns)), tasks, instances,
    )  # fmt: skip
    activities = tuple(Activity(program.names[t], (phase(latency_ps=sketch.alone[int(t)]),)) for t in tasks)
    return LoweredProgram((group,), activities, 0)


def sample_findings(world_size: int = 128, iterations: int = 12) -> RunFindings:
    """Everything the page of a run shows."""
    graph, lowered = sample_graph(world_size)
    result = run(lowered, RunOptions(max_iterations=iterations))
    time = iteration_time(result.iteration_end_ps.tolist())
    saved = {"NIC": 0.061, "imbalance": 0.013, "HBM": 0.012, "GEMM": 0.009, "NVLink": 0.002}
    saved |= {"communication": 0.068, "compute": 0.022}
    bound = find_bound(lambda improve: time.seconds * (1 - sum(saved.get(c, 0.0) for c in improve)), {"comm": 0.75})
    breakdown = break_down(graph.programs, result)
    algorithms = {n: "hierarchical" if "reduce" in n else "grouped" for n in graph.programs[0].names}
    return RunFindings(
        job=JobFacts(
            name="zionex_a_128", model="Model A", cluster="ZionEX", processor="A100-SXM4-40", nodes=-(-world_size // 8),
            world_size=world_size, global_batch_size=512 * world_size, facts={"Dense": "tf32", "Tables": "fp16"},
            scenario_hash="0" * 64, scenario_yaml="schema: 1\nname: zionex_a_128\n# <not a tag>\n", version="0.1.0",
        ),
        iteration=time, programs=graph.programs, result=result, breakdown=breakdown, chosen=choose_ranks(breakdown),
        collectives=collective_table(graph, result, algorithms=algorithms),
        critical_path=critical_path(graph.programs, lowered, result), bound=bound,
        levers=_levers(time.seconds), memory=(_memory(world_size),),
        origins=(
            Origin("gpu", "memory_bytes_per_s", "1.56 TB/s", "read", "TechPowerUp A100-SXM4-40 page"),
            Origin("model", "tables", "1,000", "assumed", "neither source says", "alternatives: 4,096"),
        ),
        warnings=("The all_to_all rate is extrapolated beyond <128 GPUs>.",),
    )  # fmt: skip


def _levers(time_s):
    gains = {
        "workload.sharding.planner=table_row_wise": ("free", 0.158), "precision.all_reduce=bf16": ("numerics", 0.2),
        "workload.overlap.weight_gradients=true": ("free", -0.035),
    }  # fmt: skip
    levers = (Lever(setting, kind, (1 - gain) * time_s, gain) for setting, (kind, gain) in gains.items())
    tried = tuple(sorted(levers, key=lambda lever: -lever.gain))
    return Levers(tried, ("workload.sharding.planner=data_parallel",), ("iterations <vary>",))


def _memory(world_size):
    spread = np.linspace(0.94, 1.06, world_size)
    items = {"weights": 24.8e9 * spread, "optimizer state": 0.9e9 * spread, "activations": np.full(world_size, 3.1e9)}
    return MemoryTier("hbm", 37.2e9, items | {"framework reserve": np.full(world_size, 1.9e9)})
