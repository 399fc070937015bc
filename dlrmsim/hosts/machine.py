"""Devices of this machine for training: PyTorch, GPUs, and the largest number of ranks on its cores."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from inputs.errors import InputError, MissingExtraError

GPU_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/kfd"))
"""Device files of the drivers of NVIDIA (Linux, WSL) and AMD; without any, PyTorch is not loaded to ask for GPUs."""

MAX_RANKS_PER_CORE = 8
"""Ranks of a job per core at most: more would measure how processes take turns."""


def require_torch(what: str = "measuring") -> None:
    """Refuse to go on without PyTorch, which ``what`` needs."""
    if find_spec("torch") is None:
        raise MissingExtraError(f"{what} needs PyTorch: pip install 'dlrmsim[trainer]'")


def device_for(asked: str | None, ranks: int) -> str:
    """The device to train on: ``cpu`` or ``cuda``.

    Args:
        asked: for; None: ``cuda`` where every rank has a GPU.
        ranks: number of ranks.

    Raises:
        InputError: there are fewer GPUs than ranks, or no such device.
    """
    if asked not in {None, "cpu", "cuda"}:
        raise InputError("no such device", file="--device", given=asked, expected="cpu or cuda")
    if asked == "cpu" or (asked is None and not any(driver.exists() for driver in GPU_DRIVERS)):
        return "cpu"
    from trainer.gpus import gpu_count

    gpus = gpu_count()
    if asked == "cuda" and gpus < ranks:
        raise InputError("not enough GPUs", file="--device", given=f"{gpus} for {ranks} ranks", expected=f"{ranks}")
    return "cuda" if gpus >= ranks else "cpu"
