"""Devices of a captured step: GPUs that are not there.

A CPU build of PyTorch has no GPU tensors, not even ones without memory. So all tensors of a capture are on the CPU, and
the device that the user's code names decides only which tensors come from the host: ``x.to("cuda")`` of such a tensor
is a copy over PCIe. The user's code sees a GPU as the device of all others; PyTorch's own code sees the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FrameType
from typing import Any, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._device import DeviceContext

from trainer.capture.gpu_forms import FORMS, FP32_UNDER_AUTOCAST, in_fp32
from trainer.capture.patches import replaced, replaced_everywhere
from trainer.capture.recorder import BUILD, StepRecorder

HOST = torch.device("cpu")
GPUS = 8
"""Number of GPUs that ``torch.cuda.device_count()`` reports in a capture."""
_GPU_TYPES = ("cuda", "xpu", "hip")
_OWN = ("torch.", "trainer.capture.")
"""First letters of modules whose code sees the CPU."""

_FACTORIES = frozenset(
    {"arange", "as_tensor", "empty", "from_numpy", "full", "ones", "rand", "randint", "randn", "randperm", "tensor",
     "zeros"}
)  # fmt: skip
"""Functions whose results are on the host unless a device is named."""

_IS_CUDA: Any = Tensor.is_cuda.__get__  # type: ignore[attr-defined]  # a property written in C


def is_gpu(value: Any) -> bool:
    """Whether a value names a GPU."""
    if isinstance(value, torch.device):
        return value.type in _GPU_TYPES
    return isinstance(value, str) and value.split(":")[0] in _GPU_TYPES


def _is_number_or_gpu(value: Any) -> bool:
    """Whether the value of a device is a GPU; numbers are GPUs."""
    return is_gpu(value) or (isinstance(value, int) and not isinstance(value, bool))


def is_cpu(value: Any) -> bool:
    """Whether a value names the CPU."""
    return (isinstance(value, torch.device) and value.type == "cpu") or (isinstance(value, str) and value == "cpu")


def current_device() -> int:
    """Stands for ``torch.cuda.current_device``."""
    return torch.distributed.get_rank() % GPUS if torch.distributed.is_initialized() else 0


class DeviceMap(TorchFunctionMode):
    """Puts GPU tensors on the CPU, records copies between the two, and takes the forms of functions on GPUs."""

    def __init__(self, recorder: StepRecorder) -> None:
        """Start with all tensors on the device except tensors that the step makes on the host."""
        super().__init__()
        self._recorder = recorder
        self.placement = recorder.placement

    def __enter__(self) -> Self:
        """Map devices until the block ends."""
        _OPEN.append(self)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        """Map devices no more."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if self in _OPEN:
            _OPEN.remove(self)

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """CalledOperator a function with devices mapped."""
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is torch.device:
            return torch.device("cuda", *args) if args and isinstance(args[0], int) else func(*args, **kwargs)
        if func is Tensor.backward:  # whose Python parts name devices, too
            with self:
                names = {"gradient": "grad_tensors"}
                return torch.autograd.backward(*args, **{names.get(key, key): value for key, value in kwargs.items()})
        if func == _IS_CUDA:
            return self.placement.on_gpu(args[0])
        if name in ("cuda", "cpu", "to", "pin_memory") and args and isinstance(args[0], Tensor):
            return self._moved(name, func, args, kwargs)
        found = FORMS[name]((args, kwargs)) if name in FORMS else None
        if found is not None:
            return found
        if name in FP32_UNDER_AUTOCAST and torch.is_autocast_enabled("cpu"):
            args, kwargs = in_fp32(args), in_fp32(kwargs)
        return self._called(name, func, args, kwargs)

    def _called(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function, which may make tensors on either device."""
        default = kwargs.get("device") is None and _default_is_gpu()
        gpu = default or any(map(is_gpu, args)) or _is_number_or_gpu(kwargs.get("device"))
        args = tuple(HOST if is_gpu(value) else value for value in args)
        if _is_number_or_gpu(kwargs.get("device")):
            kwargs["device"] = HOST
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        made = name in _FACTORIES
        self.placement.uses_gpu |= gpu
        if made and is_cpu(kwargs.get("device")) and self.placement.uses_gpu and _called_by_own():
            gpu = True  # where a tensor is that PyTorch looks at
        self.placement.makes_host = made and not gpu and self.placement.uses_gpu
        try:
            result = func(*args, **kwargs)
        finally:
            self.placement.makes_host = False
        if isinstance(result, Tensor) and (made or (gpu and not default)):
            (self.placement.to_device if gpu else self.placement.to_host)(result)
        return result

    def _moved(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tensor moved to a device: itself, or with the other type that is asked for."""
        tensor, others = args[0], (*args[1:], *kwargs.values())
        waits = not (kwargs.pop("non_blocking", False) or (name in ("cuda", "to") and _non_blocking(args)))
        if name == "pin_memory":
            self.placement.to_host(tensor)
            return tensor
        model = next((value for value in others if isinstance(value, Tensor)), None)
        alike = model is not None and self.placement.on_gpu(model)
        if alike or name == "cuda" or any(map(_is_number_or_gpu, others)):
            self._to_device(tensor, waits=waits)
        elif (name == "cpu" or any(map(is_cpu, others))) and not _called_by_own():
            self._to_host(tensor, waits=waits)
        if name != "to":
            return tensor
        args = (tensor, *(HOST if _is_number_or_gpu(value) else value for value in args[1:]))
        if _is_number_or_gpu(kwargs.get("device")):
            kwargs["device"] = HOST
        return func(*args, **kwargs)

    def _to_device(self, tensor: Tensor, *, waits: bool) -> None:
        """Record a copy if the step has made a tensor on the host; the host waits where it is not asked not to."""
        recorder = self._recorder
        self.placement.uses_gpu = True
        if self.placement.on_gpu(tensor):
            return
        if recorder.section == BUILD:
            self.placement.to_device(tensor)
            return
        self.placement.copied.add(recorder.storages.of(tensor))
        recorder.copy(tensor, "h2d")
        if waits:
            recorder.host_waits(recorder.streams.reached(recorder.streams.current))

    def _to_host(self, tensor: Tensor, *, waits: bool) -> None:
        """Record a copy to the host, which waits for it unless it is asked not to."""
        recorder = self._recorder
        if recorder.section != BUILD and self.placement.on_gpu(tensor):
            recorder.copy(tensor, "d2h")
            if waits:
                recorder.host_waits(recorder.streams.reached(recorder.streams.current))


_OPEN: list[DeviceMap] = []
"""The map of the rank that is being captured."""


def note_gpu() -> None:
    """Note that the user's code has named a GPU."""
    if _OPEN:
        _OPEN[-1].placement.uses_gpu = True


def names_gpu(*values: Any) -> bool:
    """Whether one of some arguments names a GPU."""
    return any(map(_is_number_or_gpu, values))


def _non_blocking(args: Sequence[Any]) -> bool:
    """Whether a flag among positional arguments says so; the first one does."""
    return next((value for value in args[1:] if isinstance(value, bool)), False)


def _default_is_gpu() -> bool:
    return bool(_GPU_BLOCKS)


_GPU_BLOCKS: list[DeviceContext] = []
"""Open blocks ``with torch.device("cuda")``, or the default device."""


def _called_by_own() -> bool:
    """Whether code of PyTorch or of the capture, other than this file, makes the innermost call."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - no other access to the caller
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return frame is not None and not _sees_gpu(frame)


def _sees_gpu(frame: FrameType) -> bool:
    """Whether code sees tensors as if on the captured device: true for the user's code."""
    return not f"{frame.f_globals.get('__name__', '')}.".startswith(_OWN)


def _with_devices(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with devices mapped also where PyTorch calls it in the backward pass, which drops all modes."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _OPEN or torch._C._is_torch_function_mode_enabled():  # noqa: SLF001
            return function(*args, **kwargs)
        with _OPEN[-1]:
            return function(*args, **kwargs)

    return run


@contextmanager
def _mapped_in_backward() -> Iterator[None]:
    """Devices mapped in backward methods of the user's functions, and where a checkpoint computes again."""
    name = "_checkpoint_without_reentrant_generator"
    generator = getattr(checkpoint, name)

    @wraps(generator)
    def generate(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return generator(_with_devices(function), *args, **kwargs)

    backward = BackwardCFunction.apply
    with replaced_everywhere(name, generator, generate), replaced(BackwardCFunction, apply=_with_devices(backward)):
        yield


@contextmanager
def gpu_devices() -> Iterator[None]:
    """Devices of tensors and blocks of devices as the user's code expects them, inside the block."""
    own: Any = FakeTensor.device
    begin, enter, leave = DeviceContext.__init__, DeviceContext.__enter__, DeviceContext.__exit__

    def device(tensor: FakeTensor) -> torch.device:
        found: torch.device = own.fget(tensor)
        if found.type != "cpu" or not _OPEN or not _sees_gpu(sys._getframe(1)):  # noqa: SLF001
            return found
        return torch.device("cuda", current_device()) if _OPEN[-1].placement.on_gpu(tensor) else found

    def begun(block: Any, device: Any) -> None:
        block.gpu = is_gpu(torch.device(device) if isinstance(device, str) else device) or isinstance(device, int)
        begin(block, HOST if block.gpu else device)

    def entered(block: Any) -> Any:
        if block.gpu:
            _GPU_BLOCKS.append(block)
        return enter(block)  # type: ignore[no-untyped-call]

    def left(block: Any, *error: Any) -> Any:
        if block in _GPU_BLOCKS:
            _GPU_BLOCKS.remove(block)
        return leave(block, *error)  # type: ignore[no-untyped-call]

    with ExitStack() as stack:
        stack.enter_context(_mapped_in_backward())
        stack.enter_context(replaced(FakeTensor, device=property(device, own.fset)))
        stack.enter_context(replaced(DeviceContext, __init__=begun, __enter__=entered, __exit__=left))
        yield
