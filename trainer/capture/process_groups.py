"""A process group of any size in one process, whose calls are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives, device_mesh, distributed_c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from inputs.errors import InputError
from trainer.capture.devices import names_gpu, note_gpu
from trainer.capture.patches import replaced, replaced_everywhere
from trainer.capture.recorder import StepRecorder

_CALLS = (
    "allreduce", "allreduce_coalesced", "allgather", "allgather_coalesced", "_allgather_base", "all_gather_single",
    "allgather_into_tensor_coalesced", "all_gather_single_coalesced", "alltoall", "alltoall_base", "all_to_all_single",
    "barrier", "broadcast", "gather", "recv", "recv_anysource", "reduce", "reduce_scatter", "_reduce_scatter_base",
    "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced", "scatter", "send",
)  # fmt: skip
"""Methods of a process group that start a collective, by their names in all releases."""

_BEGIN = dist.init_process_group
"""PyTorch's own function, which the user's code may not call."""

_FIXED = "tensors of fixed shapes; objects, where ranks need them, as arguments of the function's own code"

REFUSED_CALLS = {
    "init_process_group": "no call of it, or one behind `if not dist.is_initialized()`: the group of all ranks exists",
    **dict.fromkeys(("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"), _FIXED),
}
"""Functions of ``torch.distributed`` that a captured step may not call, with remedies."""


def _refused(name: str, expected: str) -> Callable[..., None]:
    """A function that refuses to run."""

    def refuse(*_: Any, **__: Any) -> None:
        raise InputError("a capture does not run this function", given=f"torch.distributed.{name}", expected=expected)

    return refuse


@contextmanager
def captured_group(recorder: StepRecorder, rank: int, world_size: int) -> Iterator[None]:
    """The default process group of a rank, inside the block."""
    _BEGIN("fake", rank=rank, world_size=world_size, store=FakeStore())
    works = _Works(recorder)
    try:
        with ExitStack() as stack:
            group: Any = distributed_c10d.ProcessGroup
            calls = {name: works.started(getattr(group, name)) for name in _CALLS if hasattr(group, name)}
            stack.enter_context(replaced(group, **calls))
            fake: Any = torch._C._distributed_c10d.FakeWork  # noqa: SLF001 - the work of this backend
            stack.enter_context(replaced(fake, wait=works.waited(fake.wait)))
            made = _noting(recorder, distributed_c10d._new_process_group_helper)  # noqa: SLF001
            stack.enter_context(replaced(distributed_c10d, _new_process_group_helper=made))
            yield
    finally:
        dist.destroy_process_group()


@contextmanager
def meshes_with_values() -> Iterator[None]:
    """Device meshes whose numbers of ranks are known, inside the block."""
    own = vars(DeviceMesh).items()
    methods: dict[str, Any] = {name: _with_values(value) for name, value in own if isinstance(value, FunctionType)}
    methods |= {
        name: property(_with_values(value.fget)) for name, value in own if isinstance(value, property) and value.fget
    }
    methods["__init__"] = _on_host(methods["__init__"], 1)
    make = _on_host(_with_values(device_mesh.init_device_mesh), 0)
    with ExitStack() as stack:
        stack.enter_context(replaced(DeviceMesh, **methods))
        stack.enter_context(replaced_everywhere("init_device_mesh", device_mesh.init_device_mesh, make))
        stack.enter_context(replaced(dist, get_backend=lambda *_, **__: dist.Backend.NCCL))
        tracing = _functional_collectives._are_we_tracing  # noqa: SLF001 - it takes a capture for a compilation
        stack.enter_context(replaced_everywhere("_are_we_tracing", tracing, lambda: False))
        for name, expected in REFUSED_CALLS.items():
            stack.enter_context(replaced_everywhere(name, getattr(dist, name), _refused(name, expected)))
        yield


class _Works:
    """Handles of collectives, and the task of each."""

    def __init__(self, recorder: StepRecorder) -> None:
        self._recorder = recorder
        self._task: dict[int, tuple[Any, int | None]] = {}

    def started(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method of a process group that starts a collective."""

        @wraps(method)
        def start(group: Any, *args: Any, **kwargs: Any) -> Any:
            recorder = self._recorder
            recorder.open_group, recorder.last_call = group.group_name, None
            work = method(group, *args, **kwargs)
            if work is not None:
                self._task[id(work)] = (work, recorder.last_call)  # the handle is kept: its address stays its own
            return work

        return start

    def waited(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method of a handle that lets the current stream wait."""

        @wraps(method)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            _, task = self._task.get(id(work), (None, None))
            self._recorder.wait_for(task)
            return method(work, *args, **kwargs)

        return wait


def _noting(recorder: StepRecorder, helper: Callable[..., Any]) -> Callable[..., Any]:
    """The function that creates a process group, which notes it."""

    @wraps(helper)
    def create(group_size: int, group_rank: int, global_ranks_in_group: list[int], *args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            made = helper(group_size, group_rank, global_ranks_in_group, *args, **kwargs)
        group = made[0]
        name = getattr(group, "group_name", None) if isinstance(group, distributed_c10d.ProcessGroup) else None
        recorder.groups.created(name, global_ranks_in_group, kwargs.get("group_desc"))
        return made

    return create


def _on_host(method: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A function whose argument ``device_type`` says the CPU where the user says a GPU."""

    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        if names_gpu(*args[place : place + 1], kwargs.get("device_type")):
            note_gpu()
        if "device_type" in kwargs:
            kwargs["device_type"] = "cpu"
        else:
            args = (*args[:place], "cpu", *args[place + 1 :])
        return method(*args, **kwargs)

    return run


def _with_values(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs on tensors with values."""

    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return method(*args, **kwargs)

    return run
