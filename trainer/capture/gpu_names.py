"""Names of PyTorch that stand for GPUs while a step is captured: ``torch.cuda``, autocast, moves of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import Module, Parameter
from torch.utils import _foreach_utils

from trainer.capture.devices import GPUS, current_device, gpu_devices, is_gpu, names_gpu, note_gpu
from trainer.capture.patches import replaced
from trainer.capture.streams import (
    CapturedEvent,
    CapturedStream,
    StreamBlock,
    current_stream,
    default_stream,
    set_stream,
    synchronize,
)

_STREAM_NAMES: dict[str, Any] = {
    "Stream": CapturedStream, "Event": CapturedEvent, "stream": StreamBlock, "StreamContext": StreamBlock,
    "current_stream": current_stream, "default_stream": default_stream, "set_stream": set_stream,
    "synchronize": synchronize,
}  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


class _Properties:
    """Stands for ``torch.cuda.get_device_properties``."""

    name, major, minor, multi_processor_count = "captured GPU", 9, 0, 132
    total_memory = 80 * 10**9


class _Block:
    """Stands for ``torch.cuda.device``."""

    def __init__(self, *_: Any) -> None:
        """A block that changes nothing."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """End."""


@contextmanager
def gpu_names() -> Iterator[None]:
    """Streams, events and devices of ``torch.cuda`` and ``torch.cpu`` that record, inside the block."""
    cuda: dict[str, Any] = {
        **_STREAM_NAMES,
        "device": _Block,
        "device_count": lambda: GPUS,
        "current_device": current_device,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "max_memory_reserved": lambda *_: 0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "captured GPU",
        "get_device_properties": lambda *_: _Properties,
        "is_bf16_supported": lambda *_, **__: True,
    }
    cuda["set_device"] = lambda *_: note_gpu()
    for name in ("empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats", "init",
                 "reset_max_memory_allocated", "ipc_collect"):  # fmt: skip
        cuda[name] = _nothing
    with ExitStack() as stack:
        for owner, values in _replacements(cuda):
            stack.enter_context(replaced(owner, **values))
        stack.enter_context(_lists_of_parameters())
        stack.enter_context(gpu_devices())
        yield


def _replacements(cuda: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Owners of names, each with the replacements of its names."""
    functional: Any = torch.nn.functional
    no = {f"has_torch_function{kind}": _no for kind in ("", "_unary", "_variadic")}
    yield torch.cuda, cuda
    yield torch.cuda.nvtx, {"range_push": _nothing, "range_pop": _nothing, "mark": _nothing}
    yield torch.cpu, _STREAM_NAMES
    yield torch.accelerator, {"current_stream": current_stream, "synchronize": synchronize}
    yield torch.autocast, {"__init__": _autocast(torch.autocast.__init__)}
    yield Module, {"cuda": _on_gpu, "cpu": _same, "to": _without_device(Module.to), "compile": _same}
    yield functional, no  # the functions below them are seen, whose forms on GPUs may differ
    yield torch.utils, {"swap_tensors": _swapped(torch.utils.swap_tensors)}
    yield torch, {"compile": _uncompiled}
    yield torch.Tensor, {"record_stream": _nothing}


def _no(*_: Any) -> bool:
    return False


@contextmanager
def _lists_of_parameters() -> Iterator[None]:
    """Kernels on lists of tensors for tensors without memory, too, inside the block."""
    types: Any = _foreach_utils._foreach_supported_types  # noqa: SLF001 - of the release
    added = [kind for kind in (FakeTensor, Parameter) if kind not in types]
    types.extend(added)

    def itself(mode: FakeTensorMode, _: Any) -> FakeTensorMode:
        return mode

    FakeTensorMode.__deepcopy__ = itself  # type: ignore[attr-defined]  # a copy of a module has the same mode
    try:
        yield
    finally:
        del FakeTensorMode.__deepcopy__  # type: ignore[attr-defined]
        for kind in added:
            types.remove(kind)


def _same(module: Module, *_: Any, **__: Any) -> Module:
    """A module where it is, and as it is."""
    return module


def _on_gpu(module: Module, *_: Any) -> Module:
    """A module, which is then on a GPU."""
    note_gpu()
    return module


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Stands for ``torch.compile``: the function itself, so that all its kernels are recorded."""
    return (lambda function: function) if model is None else model


def _without_device(move: Callable[..., Module]) -> Callable[..., Module]:
    """``Module.to`` with element types only."""

    @wraps(move)
    def moved(module: Module, *args: Any, **kwargs: Any) -> Module:
        if names_gpu(*args, kwargs.get("device")):
            note_gpu()
        types = [value for value in args if isinstance(value, torch.dtype)]
        others = {name: value for name, value in kwargs.items() if name not in ("device", "non_blocking")}
        return move(module, *types, **others) if types or others else module

    return moved


def _swapped(swap: Callable[..., None]) -> Callable[..., None]:
    """``torch.utils.swap_tensors`` of tensors that the capture holds by weak references."""

    @wraps(swap)
    def swapped(first: Any, second: Any) -> None:
        if isinstance(first, FakeTensor) and isinstance(second, FakeTensor):
            first.data = second.data
            first.fake_device = second.fake_device
        else:
            swap(first, second)

    return swapped


def _autocast(begin: Callable[..., None]) -> Callable[..., None]:
    """The constructor of ``torch.autocast`` with GPUs mapped; its default for them is fp16."""

    @wraps(begin)
    def begun(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if is_gpu(device_type):
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype, *args, **kwargs)

    return begun
