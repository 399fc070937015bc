"""The user's file: its function, and errors at the line that causes them."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.distributed.fsdp import FullyShardedDataParallel

from inputs.errors import DlrmsimError, InputError, nearest_name

MODULE = "captured_step"
"""Name under which the user's file is imported."""

_WAY_OUT = "sizes and branches that do not depend on values: fixed shapes, torch.where, losses kept as tensors"


LOCAL_RANKS = 8
"""Ranks of a node in the variables that ``torchrun`` sets; a capture knows no cluster."""


@contextmanager
def replaced_environment(rank: int, world_size: int) -> Iterator[None]:
    """Variables that ``torchrun`` sets for a rank, inside the block."""
    values = {
        "RANK": rank,
        "WORLD_SIZE": world_size,
        "LOCAL_RANK": rank % LOCAL_RANKS,
        "LOCAL_WORLD_SIZE": min(world_size, LOCAL_RANKS),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": 29500,
    }
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


ROOMS = ("dlrmsim", "hardware_specs", "inputs", "reports", "scenarios", "simulator", "traces", "trainer", "validation",
         "workloads")  # fmt: skip
"""Packages of this program, which are imported before the user's modules."""


def _refuse_same_names(folder: Path) -> None:
    """Refuse modules beside the user's file that Python would not find behind ours.

    Raises:
        InputError: there is one.
    """
    for name in ROOMS:
        beside = next((path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.is_file()), None)
        if beside is not None and not beside.resolve().is_relative_to(Path(__file__).parents[2]):
            message = f"a module beside the captured file has the name of dlrmsim's package {name}"
            raise InputError(message, file=beside, given=name, expected="another name")


def load_function(file: Path, name: str) -> Callable[..., Any]:
    """A function of a file.

    Raises:
        InputError: the file cannot be imported or has no such function.
    """
    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise InputError("no Python file", file=file, expected="a file that ends in .py")
    _refuse_same_names(file.parent)
    module = importlib.util.module_from_spec(spec)
    sys.argv = [str(file)]
    sys.modules[MODULE] = module
    sys.path.insert(0, str(file.parent))
    with located(file):
        spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        own = _functions(module)
        raise InputError(
            "no such function",
            file=file,
            given=name,
            expected=f"one of {', '.join(own)}" if own else "a function of rank and world_size that returns a step",
            nearest=nearest_name(name, own),
        )
    function: Callable[..., Any] = found
    return function


def _functions(module: ModuleType) -> list[str]:
    """Functions that the file defines, without private ones."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == MODULE and not name.startswith("_")
    ]


def check_arguments(function: Callable[..., Any], given: tuple[int, ...], what: str, file: Path) -> None:
    """Refuse a function that takes other arguments.

    Args:
        given: arguments with which it is called.
        what: words for it.

    Raises:
        InputError: it does.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C
        return
    try:
        signature.bind(*given)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        raise InputError(
            f"{what} has other parameters than it is called with",
            file=file,
            line=None if code is None or Path(code.co_filename) != file else code.co_firstlineno,
            given=f"{getattr(function, '__name__', what)}{signature}",
            expected="rank and world_size" if given else "none",
        ) from None


@contextmanager
def located(file: Path) -> Iterator[None]:
    """Report errors of the user's code with file and line.

    Raises:
        InputError: the code failed.
    """
    try:
        yield
    except DlrmsimError as error:
        if isinstance(error, InputError) and error.file is None:
            error.file, error.line = file, _line(error.__traceback__, file)
        raise
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise InputError(
            "the step depends on values of a tensor, and a capture has none",
            file=file,
            line=_line(error.__traceback__, file),
            given=_operator(error),
            expected=_WAY_OUT,
        ) from None
    except (UnsupportedOperatorException, UnsupportedFakeTensorException) as error:
        raise InputError(
            "an operator without an implementation for tensors without memory",
            file=file,
            line=_line(error.__traceback__, file),
            given=_operator(error),
            expected="torch.library.register_fake for it, or another operator",
        ) from None
    except SyntaxError as error:
        raise InputError(f"no Python: {error.msg}", file=file, line=error.lineno) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises
        raise _failed(error, file) from None


def _failed(error: BaseException, file: Path) -> InputError:
    """The message of an error of the user's code, or of PyTorch in it."""
    line = _line(error.__traceback__, file)
    words = " ".join(str(error).split())
    if "no fake impl registered" in words or "data is not allocated" in words:
        return InputError(
            "an operator without an implementation for tensors without memory",
            file=file,
            line=line,
            given=words.partition(". ")[0],
            expected="torch.library.register_fake for it, or another operator",
        )
    if isinstance(error, SystemExit):
        expected = "a function that returns, and a step that returns"
        return InputError("the code ends Python", file=file, line=line, given=f"sys.exit({words})", expected=expected)
    if isinstance(error, ModuleNotFoundError):
        expected = "a package that is installed beside PyTorch and dlrmsim, or a module in the folder of the file"
        return InputError(f"no such package: {words}", file=file, line=line, expected=expected)
    if ".numpy() is not supported" in words or "FakeTensor.__format__" in words or "tensor subclasses" in words:
        return InputError(
            "the step reads values of a tensor, and a capture has none",
            file=file,
            line=line,
            given=words,
            expected=_WAY_OUT,
        )
    return InputError(f"the code failed with {type(error).__name__}: {words}", file=file, line=line)


def _operator(error: BaseException) -> str:
    """Operator that an error of PyTorch names."""
    func = getattr(error, "func", None)
    name = str(func) if func is not None else str(error)
    known = {
        "aten._local_scalar_dense.default": ".item(), bool() or float() of a tensor (aten._local_scalar_dense)",
        "aten.nonzero.default": "nonzero(), or a boolean mask as an index (aten.nonzero)",
    }
    return known.get(name, name)


def _line(trace: TracebackType | None, file: Path) -> int | None:
    """Innermost line of the user's file in a traceback."""
    found = [frame.lineno for frame in traceback.extract_tb(trace) if Path(frame.filename) == file]
    return found[-1] if found else None


def refuse_values(*_: Any, **__: Any) -> Any:
    """Stands for functions that read data from files.

    Raises:
        InputError: always.
    """
    raise InputError(
        "the step reads data, and a capture needs none",
        expected="a batch of the right shapes made in the function, e.g. torch.randint(0, rows, (batch,))",
    )


READERS: tuple[tuple[Any, str], ...] = (
    (torch, "load"),
    (torch.utils.data.DataLoader, "__iter__"),
)
"""Functions that read data."""


def refused_wrapper(name: str, expected: str) -> Callable[..., None]:
    """The constructor of a wrapper that a capture cannot follow."""

    def refuse(*_: Any, **__: Any) -> None:
        raise InputError("a capture does not know this wrapper", given=name, expected=expected)

    return refuse


REFUSED: tuple[tuple[Any, str], ...] = (
    (FullyShardedDataParallel, "torch.distributed.fsdp.fully_shard (FSDP2), which replaces it"),
    (torch.nn.SyncBatchNorm, "torch.nn.BatchNorm1d, 2d or 3d: it asks the GPU for values in every layer"),
    (torch.nn.DataParallel, "torch.nn.parallel.DistributedDataParallel, a process for each GPU"),
)
"""Wrappers that cannot be captured, with alternatives."""
