"""Constants of GPUs on which nobody measured: kernels that were timed and iterations that were fitted are NVIDIA's."""

from __future__ import annotations

from hardware_specs.processors import AMD, Architecture, Gpu
from scenarios.uncertainty.constant import Constant

OTHER_VENDOR = 0.30
"""Further standard deviation (of the logarithm) of rates carried over from NVIDIA to AMD (assumed). The best BF16 GEMMs
reach 0.51 to 0.62 of the peak on three GPUs of AMD and 0.73 to 0.87 on seven of NVIDIA (ml-engineering, MAMF table):
0.33 apart in the mean of the logarithm. Lookups and iterations of frameworks are taken to differ as much."""

UNMEASURED: tuple[Architecture, ...] = (*AMD, "blackwell")
"""Generations of data-centre GPUs that are sold and have no kernel in ``validation/kernels``."""


def carried_over(gpu: Gpu, constant: Constant) -> Constant:
    """The constant of a kernel; less sure where it was measured on GPUs of NVIDIA and stands for one of AMD."""
    if not gpu.is_of_amd or constant.grade != "assumed":
        return constant
    return constant.widened(OTHER_VENDOR, f"nobody measured kernels of {gpu.name}: carried over from NVIDIA")


def timed_elsewhere(gpu: Gpu, constant: Constant) -> Constant:
    """The residual of a framework's fit; less sure on GPUs of AMD, on which no iteration was fitted."""
    if not gpu.is_of_amd:
        return constant
    return constant.widened(OTHER_VENDOR, f"nobody measured an iteration on {gpu.name}: carried over from NVIDIA")


def unmeasured_warning(gpu: Gpu | None) -> list[str]:
    """Warning that no kernel was measured on any GPU of this generation; empty where some were."""
    if gpu is None or gpu.architecture not in UNMEASURED:
        return []
    what, source = ("kernels or iterations", "NVIDIA") if gpu.is_of_amd else ("kernels", "H100 and A100")
    found = f"nobody measured {what} on {gpu.name}, but perhaps large GEMMs"
    return [f"{found}: they are carried over from {source}, and the interval is wider"]


def links_command(gpu: Gpu | None) -> str:
    """Command that prints the rate of the links between GPUs, for NVIDIA where there is no GPU."""
    return "amd-smi xgmi" if gpu is not None and gpu.is_of_amd else "nvidia-smi nvlink -s"


def memory_command(gpu: Gpu) -> str:
    """Way to the rate of a GPU's memory."""
    tool = "amd-smi static --vram" if gpu.is_of_amd else "nvidia-smi -q"
    return f"the memory clock and bus width that {tool} reports: bits x clock x 2 / 8"
