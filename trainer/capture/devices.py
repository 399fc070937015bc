"""Devices of a captured step: GPUs that are not there.

A CPU build of PyTorch has no GPU tensors, not even ones without memory. So all tensors of a capture say that they are
on the CPU, and the device that the user's code names decides only which tensors come from the host: ``x.to("cuda")``
of such a tensor is a copy over PCIe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from trainer.capture.patches import replaced
from trainer.capture.recorder import BUILD, StepRecorder
from trainer.capture.streams import (
    CapturedEvent,
    CapturedStream,
    StreamBlock,
    current_stream,
    default_stream,
    set_stream,
    synchronize,
)

_HOST = torch.device("cpu")
_GPU_TYPES = ("cuda", "xpu", "hip")


_FACTORIES = frozenset(
    {"arange", "as_tensor", "empty", "from_numpy", "full", "ones", "rand", "randint", "randn", "randperm", "tensor",
     "zeros"}
)  # fmt: skip
"""Functions whose results are on the host unless a device is named."""


def is_gpu(value: Any) -> bool:
    """Whether a value names a GPU."""
    if isinstance(value, torch.device):
        return value.type in _GPU_TYPES
    return isinstance(value, str) and value.split(":")[0] in _GPU_TYPES


class DeviceMap(TorchFunctionMode):
    """Puts GPU tensors on the CPU, and records copies between the two."""

    def __init__(self, recorder: StepRecorder) -> None:
        """Start with all tensors on the device but those that the step makes on the host."""
        super().__init__()
        self._recorder = recorder
        self._uses_gpu = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """CalledOperator a function with devices mapped."""
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is Tensor.backward:  # whose Python parts name devices, too
            with self:
                names = {"gradient": "grad_tensors"}
                return torch.autograd.backward(*args, **{names.get(key, key): value for key, value in kwargs.items()})
        if name == "cuda" and args and isinstance(args[0], Tensor):
            return self._to_device(args[0])
        if name == "cpu" and args and isinstance(args[0], Tensor):
            return self._to_host(args[0])
        target = next((value for value in (*args[1:], kwargs.get("device")) if is_gpu(value)), None)
        if target is None:
            host = name == "to" and any(_is_cpu(value) for value in (*args[1:], kwargs.get("device")))
            if host and isinstance(args[0], Tensor):
                self._to_host(args[0])
            result = func(*args, **kwargs)
            if name in _FACTORIES and isinstance(result, Tensor):
                self._recorder.host_storages.add(self._recorder.storages.of(result))
            return result
        self._uses_gpu = True
        moved = name == "to" and isinstance(args[0], Tensor)
        if moved:
            self._to_device(args[0])
        args = tuple(_HOST if is_gpu(value) else value for value in args)
        if is_gpu(kwargs.get("device")):
            kwargs["device"] = _HOST
        kwargs.pop("pin_memory", None)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and not moved:
            self._recorder.device_storages.add(self._recorder.storages.of(result))
        return result

    def _to_device(self, tensor: Tensor) -> Tensor:
        """The tensor; a copy if the step has made it on the host."""
        recorder = self._recorder
        self._uses_gpu = True
        number = recorder.storages.of(tensor)
        known = recorder.device_storages | recorder.copied_storages
        if number not in recorder.host_storages or number in known:
            return tensor
        if recorder.section == BUILD:
            recorder.device_storages.add(number)
        else:
            recorder.copied_storages.add(number)
            recorder.copy(tensor, "h2d")
        return tensor

    def _to_host(self, tensor: Tensor) -> Tensor:
        """The tensor, copied to the host; the host waits for it."""
        recorder = self._recorder
        if recorder.section != BUILD and self._uses_gpu:
            recorder.copy(tensor, "d2h")
            recorder.host_waits(recorder.streams.reached(recorder.streams.current))
        return tensor


def _is_cpu(value: Any) -> bool:
    return (isinstance(value, torch.device) and value.type == "cpu") or (isinstance(value, str) and value == "cpu")


_STREAM_NAMES: dict[str, Any] = {
    "Stream": CapturedStream, "Event": CapturedEvent, "stream": StreamBlock, "StreamContext": StreamBlock,
    "current_stream": current_stream, "default_stream": default_stream, "set_stream": set_stream,
    "synchronize": synchronize,
}  # fmt: skip

GPUS = 8
"""Number of GPUs that ``torch.cuda.device_count()`` reports in a capture."""


def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


class _Properties:
    """Stands for ``torch.cuda.get_device_properties``."""

    name, major, minor, multi_processor_count = "captured GPU", 9, 0, 132
    total_memory = 80 * 10**9


def _current_device() -> int:
    return torch.distributed.get_rank() % GPUS if torch.distributed.is_initialized() else 0


@contextmanager
def gpu_names() -> Iterator[None]:
    """Streams, events and devices of ``torch.cuda`` and ``torch.cpu`` that record, inside the block."""
    cuda: dict[str, Any] = {
        **_STREAM_NAMES,
        "device_count": lambda: GPUS,
        "current_device": _current_device,
        "set_device": _nothing,
        "empty_cache": _nothing,
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "reset_peak_memory_stats": _nothing,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "get_device_capability": lambda *_: (9, 0),
        "get_device_name": lambda *_: "captured GPU",
        "get_device_properties": lambda *_: _Properties,
        "is_bf16_supported": lambda *_, **__: True,
    }
    with ExitStack() as stack:
        stack.enter_context(replaced(torch.cuda, **cuda))
        stack.enter_context(replaced(torch.cpu, **_STREAM_NAMES))
        if hasattr(torch, "accelerator"):  # from PyTorch 2.6 on
            stack.enter_context(replaced(torch.accelerator, current_stream=current_stream, synchronize=synchronize))
        stack.enter_context(replaced(torch.autocast, __init__=_autocast(torch.autocast.__init__)))
        stack.enter_context(replaced(Module, cuda=_same, cpu=_same, to=_without_device(Module.to)))
        yield


def _same(module: Module, *_: Any, **__: Any) -> Module:
    """A module where it is."""
    return module


def _without_device(move: Callable[..., Module]) -> Callable[..., Module]:
    """``Module.to`` with element types only."""

    def moved(module: Module, *args: Any, **kwargs: Any) -> Module:
        types = [value for value in args if isinstance(value, torch.dtype)]
        others = {name: value for name, value in kwargs.items() if name != "device"}
        return move(module, *types, **others) if types or "dtype" in others or "memory_format" in others else module

    return moved


def _autocast(begin: Callable[..., None]) -> Callable[..., None]:
    """The constructor of ``torch.autocast`` with GPUs mapped; its default for them is fp16."""

    def begun(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if is_gpu(device_type):
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype, *args, **kwargs)

    return begun
