"""Captured jobs by hand: a small recommendation model with an MLP, tables that are exchanged, DDP and an optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scenarios.machine import machine_of
from scenarios.resolve import ResolvedScenario, load_scenario
from simulator.lowering import Machine
from simulator.program import TaskGraph
from workloads.captured.iteration import iteration_graph
from workloads.captured.job_file import write_job
from workloads.captured.records import (
    Collective,
    CopyWork,
    HostWait,
    Lookup,
    MemoryPeak,
    Moved,
    OptimizerWork,
    Product,
    RankProgram,
    RecordedJob,
    RecordedTask,
    RecordedWork,
    Table,
    Update,
)
from workloads.captured.settings import CapturedSettings
from workloads.graph.framework import Framework, load_framework

SCENARIO = """
name: small_step
cluster: dgx_h100
world_size: {world_size}
workload:
  kind: captured
  model: job.json
"""
SAMPLES, WIDTH, ROWS, POOLING = 512, 1024, 100_000, 4
GEMM = Product(8192, 8192, 8192, "bf16")


@dataclass
class JobRecords:
    """Collects the tasks of a program, and the names and works of its job."""

    operators: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=lambda: [""])
    sections: list[str] = field(default_factory=list)
    works: list[RecordedWork] = field(default_factory=list)
    tasks: list[RecordedTask] = field(default_factory=list)

    def add(
        self,
        operator: str,
        work: RecordedWork,
        module: str = "",
        section: str = "forward",
        *,
        stream: int = 0,
        after: Sequence[int] = (),
        after_streams: Sequence[int] = (),
        launches: int = 1,
    ) -> int:
        """Record a task; returns its number."""
        self.tasks.append(
            RecordedTask(
                operator=_number(self.operators, operator),
                work=_number(self.works, work),
                module=_number(self.modules, module),
                section=_number(self.sections, section),
                stream=stream,
                after=tuple(after),
                after_streams=tuple(after_streams),
                launches=launches,
            )
        )
        return len(self.tasks) - 1

    def program(self, ranks: Sequence[int], *, streams: Sequence[str] = ("default",), peak: float = 8e9) -> RankProgram:
        """The tasks so far as the program of some ranks; the next ones are another program's."""
        count, self.tasks = tuple(self.tasks), []
        last = len(count) - 1
        memory = MemoryPeak(
            peak={"parameters": peak / 4, "activations": peak / 2, "gradients": peak / 4},
            task=last // 2,
            module="top.1",
            tasks=(0, last // 2, last),
            bytes={
                "parameters": (peak / 4,) * 3,
                "activations": (0.0, peak / 2, 0.0),
                "gradients": (0.0, peak / 4, peak / 4),
            },
        )
        return RankProgram(tuple(ranks), (ranks[0],), tuple(streams), count, memory)

    def job(
        self,
        programs: Sequence[RankProgram],
        communicators: dict[str, tuple[tuple[int, ...], ...]],
        *,
        name: str = "small",
        samples: int | None = SAMPLES,
    ) -> RecordedJob:
        """The job of the programs."""
        return RecordedJob(
            name=name,
            source="train.py:step",
            torch="2.9.0",
            world_size=sum(len(program.ranks) for program in programs),
            samples_per_rank=samples,
            communicators=communicators,
            operators=tuple(self.operators),
            modules=tuple(self.modules),
            sections=tuple(self.sections),
            works=tuple(self.works),
            programs=tuple(programs),
        )


def _number(known: list, value: object) -> int:  # type: ignore[type-arg]  # of names or works
    if value not in known:
        known.append(value)
    return known.index(value)


def world(ranks: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    """The communicator of all ranks."""
    return {"world": (tuple(range(ranks)),)}


def record_step(records: JobRecords, ranks: int, *, samples: int = SAMPLES, uneven: bool = False) -> None:
    """A step: tables looked up and exchanged beside a bottom layer, a top MLP, DDP's sum, SGD."""
    size = float(samples * WIDTH * 4)
    table = Table(ROWS, WIDTH, samples * ranks * POOLING, samples * ranks)
    sent = (0.5, *(0.5 / (ranks - 1),) * (ranks - 1)) if uneven and ranks > 1 else ()
    exchange = Collective("all_to_all", "world", size * ranks, "fp32", sent=sent)
    records.add("aten._to_copy", CopyWork(size, "h2d"), section="input", stream=1)
    copied = len(records.tasks) - 1
    records.add("fbgemm.lookup", Lookup((table,), "fp32"), "tables", after=[copied])
    forward = records.add("c10d.alltoall_base_", exchange, "tables")
    product = Product(samples, WIDTH, WIDTH, "fp32")
    records.add("aten.addmm", product, "bottom.0")
    moved = Moved(size, size, element_wise=True, next_read_bytes=size, next_only_bytes=size)
    records.add("aten.relu", moved, "bottom.0")
    records.add("aten.add", Moved(2 * size, size, element_wise=True), "interaction", after=[forward])
    for layer in range(2):
        records.add("aten.addmm", product, f"top.{layer}")
        records.add("aten.relu", moved, f"top.{layer}")
    records.add("aten.unknown_op", Moved(size, size, priced_by_bytes=True), "loss")
    gradient = Product(WIDTH, WIDTH, samples, "fp32", transposed=True)
    for layer in (1, 0):
        records.add("aten.threshold_backward", Moved(2 * size, size, element_wise=True), f"top.{layer}", "backward")
        records.add("aten.mm", product, f"top.{layer}", "backward")
        records.add("aten.mm", gradient, f"top.{layer}", "backward")
    summed = records.add(
        "c10d.allreduce_", Collective("all_reduce", "world", 8.0 * WIDTH * WIDTH, "fp32"), "top", "backward"
    )
    back = records.add("c10d.alltoall_base_", exchange, "tables", "backward")
    records.add("aten.mm", gradient, "bottom.0", "backward")
    update = Update((table,), "fp32", optimizer="rowwise_adagrad")
    records.add("fbgemm.backward", update, "tables", "backward", after=[back])
    records.add("aten._foreach_add_", OptimizerWork(3 * WIDTH**2, 36.0 * WIDTH**2), "", "optimizer", after=[summed])
    loss = records.add("aten._local_scalar_dense", CopyWork(4.0, "d2h"), "", "optimizer")
    records.add("wait", HostWait(), "", "optimizer", after=[loss])


def small_job(ranks: int = 4, **changes: bool) -> RecordedJob:
    """The step on all ranks alike."""
    records = JobRecords()
    record_step(records, ranks, **changes)
    program = records.program(range(ranks), streams=("default", "memcpy"))
    return records.job([program], world(ranks))


def written(job: RecordedJob, folder: Path) -> Path:
    """A folder with a job and a scenario of it, as ``dlrmsim capture`` writes them."""
    folder.mkdir(exist_ok=True)
    write_job(job, folder / "job.json")
    (folder / "scenario.yaml").write_text(SCENARIO.format(world_size=job.world_size), encoding="utf-8")
    return folder


def resolved_job(job: RecordedJob, folder: Path, *settings: str) -> ResolvedScenario:
    """The scenario of a job."""
    return load_scenario(written(job, folder) / "scenario.yaml", settings)


@cache
def machine(ranks: int) -> Machine:
    """Nodes of eight H100."""
    settings = ["nodes=null", f"world_size={ranks}", "cluster=dgx_h100", "cluster.node.cpu.host_time_factor=1"]
    return machine_of(load_scenario("zionex_a_dgx_h100_128", settings))


@cache
def framework(name: str = "nvidia_pytorch") -> Framework:
    """A profile; the first one has launches of 5 us and nothing between them."""
    return load_framework(name)


def settings_of(job: RecordedJob, **changes: object) -> CapturedSettings:
    """The job under the first profile; ``changes`` are fields of its settings."""
    return CapturedSettings(job, framework(), **changes)  # type: ignore[arg-type]


def graph_of(job: RecordedJob, **changes: object) -> TaskGraph:
    """The tasks of an iteration; ``changes`` as `settings_of`."""
    return iteration_graph(settings_of(job, **changes))
