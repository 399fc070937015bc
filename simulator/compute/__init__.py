"""Compute models: how long an operator takes on a rank's GPU or host."""

from simulator.compute.gpu import GpuModel, gemm_amounts
from simulator.compute.model import COMPUTE_MODELS, ComputeModel

__all__ = ["COMPUTE_MODELS", "ComputeModel", "GpuModel", "gemm_amounts"]
