"""Analysis of a finished run: iteration time, breakdown, critical path, bound.

Pure functions on programs and a `EngineRun`: no clock, no randomness, no pandas until a table is asked for. Every
metric is defined once, in docs/reference/metrics.md.
"""

from simulator.analysis.bound import BOUND_RUNS, Bound, Gain, find_bound
from simulator.analysis.breakdown import Breakdown, break_down
from simulator.analysis.collectives import CollectiveRow, RankSpread, collective_table
from simulator.analysis.critical_path import CriticalPath, Segment, critical_path
from simulator.analysis.least_time import least_iteration_s
from simulator.analysis.metrics import IterationTime, SteadyRule, iteration_time
from simulator.analysis.ranks import ChosenRanks, choose_ranks
from simulator.analysis.summary import Analysis, analyse, imbalance, path_shares, rate_key, summarise
from simulator.analysis.timeline import Symbols, Timeline, timeline_blocks, write_parquet
from simulator.analysis.window import Window, measured_window, window_of

__all__ = [
    "BOUND_RUNS",
    "Analysis",
    "Bound",
    "Breakdown",
    "ChosenRanks",
    "CollectiveRow",
    "CriticalPath",
    "Gain",
    "IterationTime",
    "RankSpread",
    "Segment",
    "SteadyRule",
    "Symbols",
    "Timeline",
    "Window",
    "analyse",
    "break_down",
    "choose_ranks",
    "collective_table",
    "critical_path",
    "find_bound",
    "imbalance",
    "iteration_time",
    "least_iteration_s",
    "measured_window",
    "path_shares",
    "rate_key",
    "summarise",
    "timeline_blocks",
    "window_of",
    "write_parquet",
]
