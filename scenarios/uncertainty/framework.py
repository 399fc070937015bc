"""The constants of a framework behind a run: its times on the host, its factors, and how well its fit meets cases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache

from hardware_specs.catalogs import CATALOGS
from hardware_specs.loader import load_gpu
from hardware_specs.processors import Gpu
from scenarios.uncertainty.constant import Constant, graded
from scenarios.uncertainty.machine import EMBEDDING, STREAMS, Weighted
from scenarios.uncertainty.shares import NORMAL_MEDIAN
from scenarios.uncertainty.usage import Usage, parts
from scenarios.uncertainty.vendors import timed_elsewhere
from workloads.graph.framework import Framework

FRAMEWORK = "workload.framework"

UNFITTED = 0.15
"""Standard deviation of the iteration time under a profile that no measured iteration was fitted to."""

POOLED, POOLED_CASES = 0.10, 9
"""Standard deviation that fits of all profiles have together, and how many cases of a fit weigh as much as that (the
shipped fits: 3 to 17 % of 2 to 12 free cases each; fits of few cases say little of themselves)."""

OTHER_GPU = 0.20
"""Further standard deviation on another GPU than the fitted cases ran on, for a factor of two between the memory rates
of the two: factors on memory traffic and times on the host are carried over (V100, 1.2 factors of two away: median
error 20 %, so 0.25; H100, 0.7 away: 2 %)."""

PER_DOUBLING = 0.06
"""Further standard deviation for each doubling of nodes beyond the fitted ones: what frameworks do between nodes of
their own (one-shot all_reduces, device-side exchanges) shows on several nodes only (MLPerf v1.1 on 8 and 14 nodes)."""

_FIT = re.compile(r"median error ([\d.]+) %.* of (\d+) cases")


def framework_constants(framework: Framework, usage: Usage) -> dict[str, list[Weighted]]:
    """Constants by single class of the bound."""
    measure = f"dlrmsim calibrate framework {framework.name} --suite SUITE --out FILE, with a suite of timed iterations"
    return {"host": [*_host(framework, usage, measure)], "HBM": [*_factors(framework, usage, measure)]}


def residual_of(framework: Framework, gpu: Gpu | None, nodes: int) -> Constant:
    """The residual of a framework: distance of measured iterations from predicted ones with all else right."""
    fit = framework.fit
    measure = f"dlrmsim calibrate framework {framework.name} with iterations timed on this machine"
    if fit is None:
        reason = "no measured iteration was fitted with this framework"
        return Constant(FRAMEWORK, "assumed", UNFITTED, reason, measure)
    sigma = _shrunk(fit.residuals, len(fit.constants))
    reason = f"fitted, {_errors(fit.residuals, len(fit.constants))}"
    constant = Constant(f"{FRAMEWORK}.fit", "derived", sigma, reason, measure)
    if fit.gpus and gpu is not None and gpu.name not in fit.gpus:
        constant = constant.widened(OTHER_GPU * _octaves(gpu, fit.gpus), f"fitted on {', '.join(fit.gpus)}")
        constant = timed_elsewhere(gpu, constant)
    if fit.nodes is not None and nodes > fit.nodes:
        sigma = PER_DOUBLING * math.log2(nodes / fit.nodes)
        constant = constant.widened(sigma, f"fitted on {fit.nodes} node{'s' if fit.nodes > 1 else ''}, here {nodes}")
    return constant


def _errors(residuals: str, constants: int) -> str:
    """Errors of a fit in words; a fit that has to meet its cases has none of its own."""
    found = _FIT.search(residuals)
    if found is None or (int(found[2]) > constants and float(found[1]) > 0.0):
        return residuals
    return f"on {found[2]} case{'' if found[2] == '1' else 's'} that its constants meet exactly: no error of its own"


def _shrunk(residuals: str, constants: int) -> float:
    """Standard deviation of a fit, drawn to that of all fits by how few free cases it has."""
    found = _FIT.search(residuals)
    if found is None:
        return UNFITTED
    cases = max(int(found[2]) - constants, 0)
    sigma = float(found[1]) / 100.0 / NORMAL_MEDIAN
    return math.sqrt((POOLED_CASES * POOLED**2 + cases * sigma**2) / (POOLED_CASES + cases))


def _octaves(gpu: Gpu, fitted: Sequence[str]) -> float:
    """Distance of the memory rates of a GPU and the nearest fitted one, in octaves; 1 where none of them ships."""
    shipped = CATALOGS["gpu"].names()
    known = [_memory_rate(name) for name in fitted if name in shipped]
    return min((abs(math.log2(gpu.memory_bytes_per_s.value / rate)) for rate in known), default=1.0)


@cache
def _memory_rate(gpu: str) -> float:
    return load_gpu(gpu).memory_bytes_per_s.value


def _host(framework: Framework, usage: Usage, measure: str) -> Iterator[Weighted]:
    for name, part in parts(usage.host_s).items():
        yield Weighted(part, graded(f"{FRAMEWORK}.{name}", getattr(framework, name), measure))


def _factors(framework: Framework, usage: Usage, measure: str) -> Iterator[Weighted]:
    for name, kernels in (("embedding_factor", EMBEDDING), ("elementwise_factor", STREAMS)):
        value = getattr(framework, name)
        if value is not None:
            yield Weighted(usage.share_of_kernels(kernels), graded(f"{FRAMEWORK}.{name}", value, measure))
