"""dlrmsim: a discrete-event simulator of distributed DLRM training.

    >>> import dlrmsim
    >>> done = dlrmsim.run("zionex_a_128", settings=["nodes=32"], report=False)
    >>> done.iteration_time_s, done.finding

Verbs have one pattern, `dlrmsim.verbs`; `dlrmsim.cli` is the command line on top of them. ``import dlrmsim`` loads none
of them yet: each is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AdviseResult",
    "CalibrateClockResult",
    "CalibrateCollectivesResult",
    "CalibrateFrameworksResult",
    "CalibrateHostResult",
    "CalibrateKernelsResult",
    "CalibrateOverheadsResult",
    "CaptureResult",
    "CheckResult",
    "CollectiveResult",
    "CompareResult",
    "ExportResult",
    "FromTorchrecResult",
    "ImportTracesResult",
    "MeasureResult",
    "PlanResult",
    "Progress",
    "ReplayResult",
    "ResolvedScenario",
    "RunResult",
    "SolveResult",
    "SweepResult",
    "TableBatch",
    "ValidateMeasuredResult",
    "ValidateResult",
    "WhatIfResult",
    "__version__",
    "advise",
    "calibrate_clock",
    "calibrate_collectives",
    "calibrate_frameworks",
    "calibrate_host",
    "calibrate_kernels",
    "calibrate_overheads",
    "capture",
    "check",
    "collective",
    "compare",
    "export",
    "from_torchrec",
    "import_traces",
    "jagged_indices",
    "json_schema",
    "list_names",
    "load_scenario",
    "measure",
    "plan",
    "read_timeline",
    "replay",
    "run",
    "scenario_template",
    "shard_embeddings",
    "shipped_file",
    "solve",
    "sweep",
    "to_torchrec",
    "torchrec_constraints",
    "validate",
    "validate_measured",
    "what_if",
]

_ELSEWHERE = {
    "TableBatch": "trainer.capture.tables",
    "jagged_indices": "trainer.capture.batches",
    "shard_embeddings": "trainer.capture.sharded_tables",
    "Progress": "scenarios.progress",
    "ResolvedScenario": "scenarios.resolve",
    "json_schema": "dlrmsim.formats",
    "list_names": "dlrmsim.catalogs",
    "load_scenario": "scenarios.resolve",
    "read_timeline": "traces.parquet",
    "scenario_template": "dlrmsim.formats",
    "shipped_file": "dlrmsim.catalogs",
    "to_torchrec": "dlrmsim.trained_plans",
    "torchrec_constraints": "dlrmsim.trained_plans",
}
"""Modules of public names that are no verbs and no results of verbs."""

if TYPE_CHECKING:
    from dlrmsim.catalogs import list_names, shipped_file
    from dlrmsim.formats import json_schema, scenario_template
    from dlrmsim.trained_plans import to_torchrec, torchrec_constraints
    from dlrmsim.verbs.advise import AdviseResult, advise
    from dlrmsim.verbs.calibrate_clock import CalibrateClockResult, calibrate_clock
    from dlrmsim.verbs.calibrate_collectives import CalibrateCollectivesResult, calibrate_collectives
    from dlrmsim.verbs.calibrate_frameworks import CalibrateFrameworksResult, calibrate_frameworks
    from dlrmsim.verbs.calibrate_host import CalibrateHostResult, calibrate_host
    from dlrmsim.verbs.calibrate_kernels import CalibrateKernelsResult, calibrate_kernels
    from dlrmsim.verbs.calibrate_overheads import CalibrateOverheadsResult, calibrate_overheads
    from dlrmsim.verbs.capture import CaptureResult, capture
    from dlrmsim.verbs.check import CheckResult, check
    from dlrmsim.verbs.collective import CollectiveResult, collective
    from dlrmsim.verbs.compare import CompareResult, compare
    from dlrmsim.verbs.export import ExportResult, export
    from dlrmsim.verbs.from_torchrec import FromTorchrecResult, from_torchrec
    from dlrmsim.verbs.import_traces import ImportTracesResult, import_traces
    from dlrmsim.verbs.measure import MeasureResult, measure
    from dlrmsim.verbs.plan import PlanResult, plan
    from dlrmsim.verbs.replay import ReplayResult, replay
    from dlrmsim.verbs.run import RunResult, run
    from dlrmsim.verbs.solve import SolveResult, solve
    from dlrmsim.verbs.sweep import SweepResult, sweep
    from dlrmsim.verbs.validate import ValidateResult, validate
    from dlrmsim.verbs.validate_measured import ValidateMeasuredResult, validate_measured
    from dlrmsim.verbs.what_if import WhatIfResult, what_if
    from scenarios.progress import Progress
    from scenarios.resolve import ResolvedScenario, load_scenario
    from traces.parquet import read_timeline
    from trainer.capture.batches import jagged_indices
    from trainer.capture.sharded_tables import shard_embeddings
    from trainer.capture.tables import TableBatch
else:

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used: `RunResult` and `run` from `dlrmsim.verbs.run`."""
        if name not in __all__:
            raise AttributeError(f"module 'dlrmsim' has no attribute {name!r}")
        verb = "".join(f"_{c.lower()}" if c.isupper() else c for c in name.removesuffix("Result")).lstrip("_")
        found = getattr(import_module(_ELSEWHERE.get(name, f"dlrmsim.verbs.{verb}")), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """The public names."""
    return __all__
