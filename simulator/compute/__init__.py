"""Compute models: how long an operator takes on a rank's GPU or host."""

from simulator.compute.cpu import CpuModel
from simulator.compute.gpu import GpuModel
from simulator.compute.model import COMPUTE_MODELS, ComputeModel

__all__ = ["COMPUTE_MODELS", "ComputeModel", "CpuModel", "GpuModel"]
