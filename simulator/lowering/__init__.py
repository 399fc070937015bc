"""Lowering: a task graph and the models of a machine become durations and activities for the engine."""

from simulator.lowering.lower import Lowerer, lower
from simulator.lowering.machine import BOUND_CLASSES, WHOLE_CLASSES, Machine, build_machine
from simulator.lowering.result import CollectiveInfo, Lowering, ModelWarning
from simulator.lowering.variation import Variation

__all__ = [
    "BOUND_CLASSES",
    "WHOLE_CLASSES",
    "CollectiveInfo",
    "Lowerer",
    "Lowering",
    "Machine",
    "ModelWarning",
    "Variation",
    "build_machine",
    "lower",
]
