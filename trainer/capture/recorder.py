"""Recorder of a captured step, which sees every operator below autograd and notes its work, stream and module."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.capture.collectives import WAIT, WRAP, collective_of, group_of, is_collective
from trainer.capture.groups import GroupBook
from trainer.capture.memory import MemoryBook
from trainer.capture.modules import ModulePaths
from trainer.capture.operators.call import CalledOperator
from trainer.capture.operators.gpu_only import RESULTS
from trainer.capture.operators.kernels import has_kernel, works_of
from trainer.capture.operators.rows import Unhandled, without_memory
from trainer.capture.placement import Placement
from trainer.capture.streams import StreamBook, Waits
from trainer.capture.tensors import Storages, tensors_in
from workloads.captured.records import Collective, CopyWork, HostWait, RecordedWork

BUILD, FORWARD, BACKWARD, OPTIMIZER = "build", "forward", "backward", "optimizer"

_PLAIN = (Tensor, Parameter, FakeTensor)
"""Types whose operators are kernels; operators of other types (DTensor...) are dispatched again with these."""


@dataclass(slots=True)
class RawTask:
    """A task as it is recorded, see `workloads.captured.records.RecordedTask`.

    Attributes:
        reads: bytes of each storage, by its number.
        writes: likewise, bytes that are written.
        continues: whether the operator before launches it, too.
    """

    operator: str
    work: RecordedWork
    module: str
    section: str
    stream: int
    waits: Waits
    launches: int = 1
    reads: Storages = field(default_factory=dict)
    writes: Storages = field(default_factory=dict)
    continues: bool = False


class StepRecorder(TorchDispatchMode):
    """Records the operators of a rank.

    Attributes:
        tasks: records of the step so far.
        section: forward, unless the backward pass or an optimizer runs, or gradients are changed between the two.
    """

    def __init__(self, streams: StreamBook, groups: GroupBook, modules: ModulePaths, memory: MemoryBook) -> None:
        """Start without tasks, while the model is built."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.streams, self.groups, self.modules, self.memory = streams, groups, modules, memory
        self.tasks: list[RawTask] = []
        self.section = BUILD
        self.placement = Placement()
        self.storages = self.placement.storages
        self.last_call: int | None = None
        self.open_group: str | None = None
        self._pending: dict[int, int] = {}
        self._node: tuple[str, int] | None = None
        self._after_backward = False

    def begin_step(self) -> None:
        """Forget the tasks so far, which are of the iteration before."""
        self.tasks.clear()
        self._pending.clear()
        self.placement.copied.clear()
        self.streams.begin_step()
        self.memory.begin_step()
        self.section, self._after_backward = FORWARD, False

    @property
    def section_now(self) -> str:
        """Section of the operator that runs."""
        if self.section != FORWARD:
            return self.section
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001 - no other access to the backward pass
            self._after_backward = True
            return BACKWARD
        return OPTIMIZER if self._after_backward and not torch.is_grad_enabled() else FORWARD

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operator and record it."""
        kwargs = dict(kwargs or {})
        if not all(issubclass(kind, _PLAIN) and kind in _PLAIN for kind in types):
            return NotImplemented
        if func._opname == WRAP:  # noqa: SLF001 - the name without namespace
            return AsyncCollectiveTensor(args[0])
        result = without_memory(func, tuple(args), kwargs)
        if result is Unhandled:
            made = RESULTS.get(func._opname)  # noqa: SLF001 - the name without namespace
            result = func(*args, **kwargs) if made is None else made(CalledOperator(func, args, kwargs, None))
        call = CalledOperator(func, args, kwargs, result)
        section = self.section_now
        if self._is_hosts(call):
            for tensor in tensors_in(result):
                self.placement.to_host(tensor)
            return result
        if func._opname == WAIT:  # noqa: SLF001
            self._wait_tensor(call)
        elif is_collective(func):
            self._collective(call)
        elif has_kernel(call):
            self._kernels(call)
        self.memory.see(tensors_in(result), section)
        return result

    def _is_hosts(self, call: CalledOperator) -> bool:
        """Whether the host runs an operator, on batches that it makes."""
        given = list(tensors_in((*call.args, dict(call.kwargs))))
        made = self.placement.makes_host and not given
        return self.section != BUILD and not is_collective(call.func) and (made or self.placement.on_host(given))

    def host_waits(self, waits: Waits) -> None:
        """Record that the host waits for tasks."""
        if waits.tasks or waits.streams:
            self._add(RawTask("synchronize", HostWait(), self.modules.now(), self.section_now, 0, waits))

    def copy(self, tensor: Tensor, direction: str) -> None:
        """Record a copy between host and device."""
        self.memory.see([tensor], self.section_now)
        size = float(tensor.numel() * tensor.element_size())
        self._issue("copy", CopyWork(bytes=size, direction=direction), 1, {}, {})  # type: ignore[arg-type]

    def wait_for(self, task: int | None) -> None:
        """Let the current stream wait for a collective."""
        if task is not None and task < len(self.tasks):
            self.streams.wait(self.streams.current, Waits({task}))

    def _kernels(self, call: CalledOperator) -> None:
        if self.section == OPTIMIZER and all(t.dim() == 0 for t in (*call.read, *call.written)):
            return  # numbers of steps, which PyTorch keeps on the host
        for work, launches in works_of(call):
            reads, writes = self.storages.touched(call.read), self.storages.touched(call.written)
            self._issue(call.name, work, launches, reads, writes)

    def _issue(self, name: str, work: RecordedWork, launches: int, reads: Storages, writes: Storages) -> None:
        stream = self.streams.current
        waits = self.streams.ready(stream)
        module, section = self.modules.now(), self.section_now
        continues = self._continues()
        task = RawTask(name, work, module, section, stream, waits, launches, reads, writes, continues)
        self.streams.issued(stream, self._add(task))

    def _continues(self) -> bool:
        """Whether a kernel is a further one of a node of the backward pass, or of DDP's reducer (both in C++)."""
        node = torch._C._current_autograd_node()  # noqa: SLF001 - no other access to it
        name = None if node is None else (node.name(), node._sequence_nr())  # noqa: SLF001
        before, self._node = self._node, name
        again = torch.is_grad_enabled()  # forward work that the backward pass repeats, operator by operator
        return name is not None and not again and (name == before or "AccumulateGrad" in name[0])

    def _collective(self, call: CalledOperator) -> None:
        group = group_of(call)
        name = group if isinstance(group, str) else (self.open_group or "")
        rank = torch.distributed.get_rank()
        work = collective_of(call, self.groups.communicator(name), self.groups.members(name), rank)
        stream = self.streams.current
        ready = self.streams.reached(stream)
        last = self.streams.streams[stream].last
        waits = Waits(ready.tasks - {-1 if last is None else last}, ready.streams)
        task = RawTask(
            "receive" if work.receives else work.op,
            work,
            self.modules.now(),
            self.section_now,
            stream,
            waits,
            reads=self.storages.touched(call.read),
            writes=self.storages.touched(call.written),
        )
        self.last_call = self._add(task)
        if work.op == "barrier":
            self.host_waits(Waits({self.last_call}))
        for tensor in tensors_in(call.result):
            self._pending[self.storages.of(tensor)] = self.last_call
        for tensor in (*call.written, *call.read):
            self.memory.see([tensor], self.section_now)
        self._mark_buffers(call)

    def _mark_buffers(self, call: CalledOperator) -> None:
        """Buffers of collectives that are born in the step, other than gradients, are communication."""
        if call.func.namespace == "c10d":
            names = [key for key in call.given if key.startswith("output")]
            for name in names:
                for tensor in tensors_in(call.given[name]):
                    self.memory.mark_new(tensor, "communication")

    def _wait_tensor(self, call: CalledOperator) -> None:
        self.wait_for(self._pending.get(self.storages.of(call.tensor("tensor"))))

    def _add(self, task: RawTask) -> int:
        task.waits.tasks = self._last_of_each(task.waits.tasks)
        self.tasks.append(task)
        self.memory.now = len(self.tasks)
        return len(self.tasks) - 1

    def _last_of_each(self, tasks: set[int]) -> set[int]:
        """The last task of each stream and communicator, which ends after all earlier ones."""
        last: dict[Hashable, int] = {}
        for number in sorted(tasks):
            last[_queue(self.tasks[number])] = number
        return set(last.values())


def _queue(task: RawTask) -> Hashable:
    """Queue whose tasks run one after the other: a stream, a communicator, or messages of one peer and direction."""
    work = task.work
    if not isinstance(work, Collective):
        return task.stream
    return (work.communicator, work.peer, work.receives) if work.op == "send" else work.communicator
