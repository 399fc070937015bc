"""Tasks of the ranks of one stage, in the order in which their host launches them.

A pass of a part has one host task, which launches all its kernels, and one task for each kind of kernel. Collectives
wait for the kernels that write their input, as c10d's do, and hold the kernels that read their result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from simulator.collective_calls import CollectiveCall
from simulator.operators import Amount, Delay, DenseOptimizer, Elementwise, HostWork, Marker
from simulator.program import Dependency, IntArray, Program, ProgramBuilder
from simulator.work import KernelSeries, Operator
from workloads.graph.levels import GATHER, REDUCE, REPLICATE, TENSOR
from workloads.graph.optimizers import DENSE_ACCESSES
from workloads.transformer.kernels import ATTENTION, PassKernels
from workloads.transformer.parts import NetworkPart
from workloads.transformer.settings import TransformerSettings

HOST, DEFAULT = "host", "default"
CONTEXT = "context_comm"
"""Streams of a rank: the host thread, kernels, and exchanges of keys and values beside those of
`workloads.graph.levels`."""

SENDS = ("send_forward", "receive_forward", "send_backward", "receive_backward")
"""Streams of messages between stages."""


@dataclass(frozen=True, slots=True)
class PassWork:
    """Kernels and exchanges of a pass of a part."""

    series: tuple[KernelSeries, ...]
    launches: int
    tensor_calls: tuple[CollectiveCall, ...]
    hidden_calls: tuple[CollectiveCall, ...]
    context_calls: tuple[CollectiveCall, ...]

    @staticmethod
    def of(part: NetworkPart, copies: Elementwise | None, settings: TransformerSettings, *, backward: bool) -> PassWork:
        """The work of a pass, with copies of weights or gradients."""
        kernels = part.kernels(settings, backward=backward)
        if copies is not None:
            kernels = PassKernels(((1, copies),), ()) + kernels
        waited, hidden = _overlapped(part.tensor_calls(settings, backward=backward), settings)
        return PassWork(
            tuple(kernels.series()),
            kernels.launches,
            tuple(waited),
            (*hidden, *part.tensor_calls_beside(settings, backward=backward)),
            tuple(part.context_calls(settings, backward=backward)),
        )


def _overlapped(
    calls: Sequence[CollectiveCall], settings: TransformerSettings
) -> tuple[list[CollectiveCall], list[CollectiveCall]]:
    """Exchanges of a tensor group that its kernels wait for, and those that run beside them.

    Cut into as many parts as ranks, all parts but one run beside products (asynchronous tensor parallelism; user
    buffers of Transformer Engine).
    """
    if not settings.sizes.overlap_tensor:
        return list(calls), []
    parts = settings.sizes.tensor
    first = [replace(call, bytes=call.bytes / parts) for call in calls]
    return first, [replace(call, bytes=call.bytes * (parts - 1) / parts) for call in calls]


def streams_of(settings: TransformerSettings) -> list[str]:
    """The streams that the ranks of a stage use."""
    sizes = settings.sizes
    used = {
        TENSOR: sizes.tensor > 1,
        CONTEXT: sizes.context > 1,
        GATHER: sizes.sharding != "none" and sizes.reducing > 1,
        REDUCE: sizes.reducing > 1 or (settings.model.tied and sizes.pipeline > 1),
        REPLICATE: sizes.sharding == "hybrid" and sizes.reducing > sizes.shard_size,
    }
    return [HOST, DEFAULT, *(name for name, is_used in used.items() if is_used), *(SENDS if sizes.pipeline > 1 else ())]


def optimizer_kernels(settings: TransformerSettings, parameters: Amount) -> tuple[Elementwise, DenseOptimizer]:
    """Norm of the gradients, and update of the parameters that a rank updates."""
    size = settings.state_bytes * parameters
    copied = settings.state_bytes > settings.element_bytes and not settings.sizes.gathers  # weights that compute
    traffic = DENSE_ACCESSES[settings.optimizer] * size + copied * settings.element_bytes * parameters
    return Elementwise(size, 0.0), DenseOptimizer(parameters, traffic)


class StageRecorder:
    """Records the tasks of one iteration of a stage."""

    def __init__(self, name: str, ranks: IntArray, settings: TransformerSettings) -> None:
        """Start an empty iteration."""
        self._builder = ProgramBuilder(name, ranks, streams_of(settings))
        self._settings = settings
        self._last: int | None = None
        self._known: dict[tuple[NetworkPart, bool, Elementwise | None], PassWork] = {}
        self.begin = self._builder.task("begin", HOST, Marker(), section="forward")

    @property
    def last(self) -> list[int]:
        """The last kernel so far; nothing at the start."""
        return [] if self._last is None else [self._last]

    def launch(self, name: str, kernels: int, *, section: str) -> int:
        """Host task that launches so many kernels; compilers launch theirs without the framework's operators."""
        seconds = 0.0 if self._settings.compiled else kernels * self._settings.operator_s
        return self._builder.task(f"launch_{name}", HOST, HostWork(launches=kernels, seconds=seconds), section=section)

    def kernel(self, name: str, work: Operator, *, section: str, after: Iterable[int] = ()) -> int:
        """A kernel, or a series of them, on the default stream."""
        self._last = self._builder.task(name, DEFAULT, work, after=after, section=section)
        return self._last

    def call(self, name: str, stream: str, call: CollectiveCall, *, section: str, after: Iterable[Dependency]) -> int:
        """A collective on a stream of its own."""
        return self._builder.task(name, stream, call, after=after, section=section)

    def depend(self, task: int, on: int, *, lag: int) -> None:
        """Let a task wait for one of an earlier iteration."""
        self._builder.depend(task, on, lag=lag)

    def run_pass(
        self,
        name: str,
        part: NetworkPart,
        *,
        backward: bool,
        after: Sequence[int] = (),
        copies: Elementwise | None = None,
    ) -> int:
        """A pass of a micro-batch through a part; returns what it does first on the device.

        Args:
            after: tasks that its kernels wait for: messages with its input, gathered weights.
            copies: copies of gathered weights and of gradients.
        """
        section = "backward" if backward else "forward"
        work = self._work(part, copies, backward=backward)
        launch = self.launch(name, work.launches, section=section)
        waits: list[int] = [launch, *after]
        hidden: list[int] = []
        begun: list[int] = []
        for number, call in enumerate(work.tensor_calls):
            named = f"{name}_{call.op}_{number}"
            waits = [self.call(named, TENSOR, call, section=section, after=[*waits, *self.last])]
            begun += waits
        for number, call in enumerate(work.hidden_calls):
            named, start = f"{name}_{call.op}_beside_{number}", hidden or [*waits, *self.last]
            hidden = [self.call(named, TENSOR, call, section=section, after=start)]
        for series in work.series:
            passed = list(self.last)
            for call in work.context_calls if series.name == ATTENTION else ():
                passed = [self.call(f"{name}_kv_{call.op}", CONTEXT, call, section=section, after=passed)]
            kernel = f"{name}_{series.name.lower()}"
            if self._settings.sizes.context_exchange == "ring":
                self.kernel(kernel, series, section=section, after=waits)
                waits = passed
            else:
                self.kernel(kernel, series, section=section, after=[*waits, *passed])
                waits = []
            begun += self.last
        passed = [*(waits if work.context_calls else ()), *hidden]
        if passed:
            self.kernel(f"{name}_passed", Marker(), section=section, after=passed)
        return begun[0]

    def _work(self, part: NetworkPart, copies: Elementwise | None, *, backward: bool) -> PassWork:
        """Work of a pass; equal passes share it."""
        key = (part, backward, copies)
        if key not in self._known:
            self._known[key] = PassWork.of(part, copies, self._settings, backward=backward)
        return self._known[key]

    def optimizer(self, parameters: Amount, after: Iterable[int]) -> int:
        """Norm of the gradients, and update of the parameters that a rank updates; returns its last task."""
        settings = self._settings
        norm, update = optimizer_kernels(settings, parameters)
        launch = self.launch("optimizer", settings.optimizer_kernels + 1, section="optimizer")
        self.kernel("gradient_norm", norm, section="optimizer", after=[launch, *after])
        return self.kernel("update", update, section="optimizer")

    def build(self) -> Program:
        """The program; its host waits for the device, as one that reads the loss does."""
        if self._settings.iteration_s > 0.0:
            self.kernel("host_wait", Delay(self._settings.iteration_s, "framework"), section="optimizer")
        self._builder.task("end", HOST, Marker(), after=self.last, section="optimizer")
        return self._builder.build()
