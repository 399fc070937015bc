"""Compute models: how long an operator takes on a rank's GPU or host."""

from simulator.compute.cpu import CpuModel, threads_of
from simulator.compute.gemm import gemm_amounts, gemm_s
from simulator.compute.gpu import GpuModel, gemm_rates
from simulator.compute.model import COMPUTE_MODELS, ComputeModel
from simulator.compute.sockets import SocketModel

__all__ = [
    "COMPUTE_MODELS",
    "ComputeModel",
    "CpuModel",
    "GpuModel",
    "SocketModel",
    "gemm_amounts",
    "gemm_rates",
    "gemm_s",
    "threads_of",
]
