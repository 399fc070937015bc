"""Capture of one rank: its function and its step run on tensors without memory, twice; the second time is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed.optim  # compiles some functions, which needs PyTorch's own names
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Module, Parameter
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_forward_pre_hook,
    register_module_parameter_registration_hook,
)

from inputs.errors import InputError
from trainer.capture.data_parallel import CapturedDataParallel
from trainer.capture.devices import DeviceMap
from trainer.capture.gpu_names import gpu_names
from trainer.capture.groups import GroupBook
from trainer.capture.memory import Category, MemoryBook
from trainer.capture.modules import ModulePaths
from trainer.capture.optimizers import captured_optimizers
from trainer.capture.patches import replaced, replaced_everywhere
from trainer.capture.process_groups import captured_group, meshes_with_values
from trainer.capture.recorder import FORWARD, RawTask, StepRecorder
from trainer.capture.streams import BOOK
from trainer.capture.tables import TableBatch
from trainer.capture.user_code import (
    READERS,
    REFUSED,
    check_arguments,
    located,
    refuse_values,
    refused_wrapper,
    replaced_environment,
)
from workloads.captured.records import MemoryPeak


@dataclass(frozen=True, slots=True)
class RankRecording:
    """The recorded step of a rank.

    Attributes:
        streams: names of its streams.
        groups: process groups that it created.
        samples: samples of its step, if the step says so.
        kept: storages that live on after the step.
        tf32: whether the program lets products of fp32 tensors compute in tf32.
    """

    rank: int
    tasks: tuple[RawTask, ...]
    streams: tuple[str, ...]
    groups: GroupBook
    memory: MemoryPeak
    samples: int | None
    kept: frozenset[int]
    tf32: bool


@contextmanager
def stand_ins() -> Iterator[None]:
    """Names of PyTorch that the user's file may import, replaced inside the block."""
    with ExitStack() as stack:
        original = torch.nn.parallel.DistributedDataParallel
        stack.enter_context(replaced_everywhere("DistributedDataParallel", original, CapturedDataParallel))
        stack.enter_context(gpu_names())
        stack.enter_context(meshes_with_values())
        for owner, name in READERS:
            stack.enter_context(replaced(owner, **{name: refuse_values}))
        for wrapper, expected in REFUSED:
            stack.enter_context(replaced(wrapper, __init__=refused_wrapper(wrapper.__name__, expected)))
        yield


def capture_rank(
    function: Callable[..., Any], file: Path, rank: int, world_size: int, mode: FakeTensorMode
) -> RankRecording:
    """Record the step of a rank.

    Raises:
        InputError: the function returns no step, or fails.
    """
    holder: list[StepRecorder] = []
    streams = BOOK.start(lambda waits: holder[0].host_waits(waits))  # noqa: PLW0108 - it does not exist yet
    memory, modules = MemoryBook(), ModulePaths()
    recorder = StepRecorder(streams, GroupBook(world_size), modules, memory)
    holder.append(recorder)
    with ExitStack() as stack:
        for block in (
            captured_group(recorder, rank, world_size),
            captured_optimizers(recorder),
            _categories(recorder),
            replaced(torch.UntypedStorage, resize_=_noting_sizes(memory, torch.UntypedStorage.resize_)),
            mode,
            recorder,
            modules,
            DeviceMap(recorder),
        ):
            stack.enter_context(block)
        stack.enter_context(replaced_environment(rank, world_size))
        check_arguments(function, (rank, world_size), "the function", file)
        with located(file):
            step = function(rank, world_size)
        if not callable(step):
            raise InputError(
                "the function returns no step",
                file=file,
                given=type(step).__name__,
                expected="a function without arguments that runs one training step",
            )
        check_arguments(step, (), "the step", file)
        with located(file):
            recorder.section = FORWARD
            step()
            recorder.begin_step()
            step()
        samples = getattr(step, "samples", None)
        tasks = tuple(recorder.tasks)
        peak = memory.peak(len(tasks), lambda task: tasks[task].module if task < len(tasks) else "")
        kept = frozenset(recorder.storages.alive())
        tf32 = torch.get_float32_matmul_precision() != "highest"
    if not tasks:
        raise InputError("the step starts nothing", file=file, expected="a step that computes on tensors")
    names = tuple(stream.name for stream in streams.streams)
    return RankRecording(rank, tasks, names, recorder.groups, peak, samples, kept, tf32)


class _categories(ExitStack):  # noqa: N801 - a context manager
    """Notes the storages of parameters and buffers, which are where the step computes."""

    def __init__(self, recorder: StepRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __enter__(self) -> Self:
        def parameter(_: Module, __: str, value: Parameter | None) -> None:
            self._note(value, "parameters")

        def buffer(_: Module, __: str, value: Tensor | None) -> None:
            self._note(value, "buffers")

        def called(module: Module, _: Any) -> None:
            for value in module._parameters.values():  # noqa: SLF001 - other accesses walk through all modules
                self._recorder.memory.mark_input(value, "parameters")
            if isinstance(module, TableBatch):
                for value in module.state:
                    self._recorder.memory.mark(value, "optimizer_state")

        self.callback(register_module_forward_pre_hook(called).remove)
        self.callback(register_module_parameter_registration_hook(parameter).remove)
        self.callback(register_module_buffer_registration_hook(buffer).remove)
        return self

    def _note(self, value: Tensor | None, category: Category) -> None:
        self._recorder.memory.mark(value, category)
        if value is not None:
            self._recorder.placement.to_device(value)


def _noting_sizes(memory: MemoryBook, resize: Callable[..., Any]) -> Callable[..., Any]:
    """The method that changes the size of a storage, which notes it."""

    def resized(storage: Any, size: int) -> Any:
        result = resize(storage, size)
        memory.resized(storage)
        return result

    return resized
