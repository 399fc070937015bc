"""The top of a run's page: the finding in plain language, the key figures and the facts of the job."""

from __future__ import annotations

from html import escape

from inputs.quantities import format_quantity
from reports.findings import RunFindings, hidden_in_words, mean_shares
from reports.interval_words import given_in_words, time_span, widest_in_words
from reports.markup import Markup, options_marked, strong, terms, tile
from reports.numbers import (
    counted,
    long_time,
    memory_named,
    percent,
    picoseconds,
    rate_in_words,
    seconds,
    singular,
    usd,
)
from reports.sequence_words import target_span
from reports.serving_words import latency_span
from simulator.analysis.breakdown import Breakdown
from simulator.analysis.critical_path import CriticalPath

_NEGLIGIBLE = 5e-4
"""Shares of the iteration below 0.05 % are not worth a word."""

_IN_WORDS = {
    "compute": "computation",
    "exposed_comm": "exposed communication",
    "exposed_copy": "exposed copies",
    "idle": "idling",
}


def headline(findings: RunFindings) -> Markup:
    """The one sentence to remember: the simulated job and its speed."""
    job, rate = findings.job, " ".join(rate_in_words(findings.throughput_per_s, findings.job.unit))
    what = escape(f"{job.model} on {counted(job.world_size, job.rank_name)}")
    found = findings.interval
    span = "" if found is None else f" ({time_span(found.p10_s, found.p90_s)})"
    iteration = "iteration, a forward pass" if job.forward_only else "iteration"
    claim = strong(f"{{}} per {iteration}" + span + ", {}.", seconds(findings.iteration.seconds), rate)
    return Markup(f"{what}: {claim.html}")


def sentences(findings: RunFindings) -> tuple[Markup, ...]:
    """The bound, the advice, the largest parts of the time, and the longest wait on the critical path."""
    claim, colon, rest = memory_named(findings.bound.finding, findings.job.rank_name).partition(":")
    return (
        strong(f"{{}}{colon}{rest}", claim),
        *_advice(findings),
        *_widest(findings),
        where_it_goes(findings.training, findings.training_name, on_cpus=findings.on_cpus),
        longest_wait(findings.critical_path),
    )


def _widest(findings: RunFindings) -> tuple[Markup, ...]:
    """The constants that widen the interval most; empty without one."""
    if findings.interval is None:
        return ()
    uncertainty = findings.interval.to_dict()
    words = [found for found in (widest_in_words(uncertainty), given_in_words(uncertainty)) if found]
    return tuple(Markup(escape(sentence)) for sentence in words)


def where_it_goes(breakdown: Breakdown, ranks: str = "ranks", *, on_cpus: bool = False) -> Markup:
    """The parts of the iteration that take any time, largest first, and how much communication is hidden.

    Args:
        ranks: plural noun of the ranks.
        on_cpus: whether they are CPUs.
    """
    in_words = _IN_WORDS | ({"idle": "work of the framework between kernels, or idling"} if on_cpus else {})
    parts = sorted(mean_shares(breakdown).items(), key=lambda part: -part[1])
    present = [(name, share) for name, share in parts if share >= _NEGLIGIBLE]
    words = ", ".join(f"{{}} {in_words[name]}" for name, _ in present)
    hidden, numbers = hidden_in_words(breakdown)
    return strong(
        f"The iteration of the mean {singular(ranks)} is {words}.{hidden}",
        *(percent(share) for _, share in present),
        *numbers,
    )


def longest_wait(path: CriticalPath) -> Markup:
    """The operator that takes most of the critical path."""
    by_operator = path.by_operator_ps()
    if not by_operator:
        return Markup("")
    name, length = next(iter(by_operator.items()))
    share = percent(length / max(path.window.length_ps, 1))
    return strong(
        "The critical path spends most of its time in {}: {}, {} of the iteration.", name, picoseconds(length), share
    )


def tiles(findings: RunFindings) -> str:
    """The key figures."""
    shares, over = mean_shares(findings.training), f"of the iteration, mean over {findings.training_name}"
    value, unit = seconds(findings.iteration.seconds).split(" ")
    rate, rate_unit = rate_in_words(findings.throughput_per_s, findings.job.unit)
    training = len(findings.training.ranks)
    per_rank = " ".join(rate_in_words(findings.throughput_per_s / training, findings.job.unit))
    return "".join(
        (
            tile("Iteration time", value, unit, _measured(findings)),
            tile("Throughput", rate, rate_unit, f"{per_rank} per {_one(findings)}"),
            *_target_tile(findings),
            *_latency_tile(findings),
            *_exchange_tile(findings, shares["exposed_comm"], over),
            tile("Computation", f"{100 * shares['compute']:.3g}", "%", over),
            _bound_tile(findings),
            *_memory_tile(findings),
            *_price_tile(findings),
        )
    )


def _one(findings: RunFindings) -> str:
    """Noun of a rank that trains, or of the device that holds one where all do."""
    return singular(findings.training_name if findings.roles else findings.job.rank_name)


def _bound_tile(findings: RunFindings) -> str:
    """The bounding class, its share of the critical path, its gain, and the single classes of its spread."""
    bound = findings.bound
    bounding = bound.bounding
    if bounding is None:
        return tile("Bound by", "nothing", "", "no class gains 0.1 % or more")
    share = bound.path_shares.get(bounding.resource_class)
    path = "" if share is None else f"{100 * share:.0f} % of the critical path; "
    spread = ", ".join(gain.resource_class for gain in bound.spread)
    note = f"saved when it is 10 % better; {path}{spread}".removesuffix("; ")
    return tile(f"Bound by {bounding.resource_class}", f"{100 * bounding.gain:.1f}", "%", note)


def _advice(findings: RunFindings) -> tuple[Markup, ...]:
    """The settings that save most; empty if no setting was tried."""
    return () if findings.levers is None else (options_marked(findings.levers.advice),)


def _measured(findings: RunFindings) -> str:
    time = findings.iteration
    if not time.steady:
        return f"not settled after {time.iterations} iterations: see the warnings"
    warm_up = f" after {time.warm_up_iterations} of warm-up" if time.warm_up_iterations else ""
    return f"mean of {time.measured_iterations} iterations{warm_up}"


def _memory_tile(findings: RunFindings) -> tuple[str, ...]:
    if not findings.memory:
        return ()
    tier = findings.memory[0]
    used = float(tier.used_bytes.max())
    value, unit = format_quantity(used, "bytes").split(" ")
    note = f"{percent(used / tier.capacity_bytes)} of {format_quantity(tier.capacity_bytes, 'bytes')} usable"
    name = tier.name.upper() if findings.job.rank_name == "GPUs" else "Memory"
    return (tile(f"{name} on the fullest {singular(findings.job.rank_name)}", value, unit, note),)


def _exchange_tile(findings: RunFindings, share: float, over: str) -> tuple[str, ...]:
    """Tile of exposed communication; none for servers, which have no communication."""
    return () if findings.serving else (tile("Exposed communication", f"{100 * share:.3g}", "%", over),)


def _latency_tile(findings: RunFindings) -> tuple[str, ...]:
    if findings.serving is None:
        return ()
    value, unit = seconds(findings.serving["latency"]["p99_s"]).split(" ")
    low, high = latency_span(findings.serving, "p99_s")
    return (tile("Latency, p99", value, unit, f"from arrival to answer; 8 in 10 between {low} and {high}"),)


def _target_tile(findings: RunFindings) -> tuple[str, ...]:
    target = findings.target
    if target is None:
        return ()
    value, unit = long_time(target["time_s"]).split(" ")
    samples = " ".join(rate_in_words(target["samples"], findings.job.unit)).removesuffix("/s")
    return (tile("Time to target", value, unit, f"{target_span(target)}; {samples}"),)


def _price_tile(findings: RunFindings) -> tuple[str, ...]:
    price = findings.job.million_usd
    return () if price is None else (tile("Cost", usd(price), "", f"per million {findings.job.unit}"),)


def facts(findings: RunFindings) -> str:
    """Table of the simulated job."""
    job = findings.job
    nodes = f"{job.nodes:,} nodes, {job.world_size:,} {job.processor}"
    training = len(findings.training.ranks)
    uneven, most = job.global_batch_size % training, -(-job.global_batch_size // training)
    local_batch = f"{'at most ' if uneven else ''}{most:,}"
    pairs = [
        ("Model", job.model),
        ("Cluster", f"{job.cluster}: {nodes}"),
        ("Global batch", f"{job.global_batch_size:,} ({local_batch} per {_one(findings)})"),
        *job.facts.items(),
    ]
    return terms(pairs)
