"""The engine: executes lowered programs to the picosecond.

Only what is shared becomes SimPy events; everything else is arithmetic over vectors of ranks. `run` is the engine,
`simulator.engine.oracle.run_oracle` the slow and simple one it is tested against.
"""

from simulator.engine.controllers import Controller, IssueByReadiness, ReadyTask, View
from simulator.engine.engine import run
from simulator.engine.memory import ProgramMemory
from simulator.engine.records import ActivityTimes, EngineRun, GroupTimes, IterationRecord, RunOptions
from simulator.engine.sharing import bottleneck_fairness

__all__ = [
    "ActivityTimes",
    "Controller",
    "EngineRun",
    "GroupTimes",
    "IssueByReadiness",
    "IterationRecord",
    "ProgramMemory",
    "ReadyTask",
    "RunOptions",
    "View",
    "bottleneck_fairness",
    "run",
]
