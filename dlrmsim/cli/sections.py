"""Rows about the sections of a summary that only some kinds of workload have; none where a section is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from inputs.quantities import format_quantity
from reports.numbers import counted, long_time, percent, rate_in_words, seconds
from reports.sequence_words import (
    FORWARD_ONLY,
    dealt_in_words,
    positions_in_words,
    ranks_differ,
    target_span,
    target_work,
)
from reports.serving_words import latency_span, load_words
from scenarios.summary_keys import MODE_KEY, SEQUENCES_KEY, TARGET_KEY

Row: TypeAlias = tuple[str, str, str]
"""Label, value and remark."""

WAYS = {"d2h": "to the host", "h2d": "back"}
"""Names of the directions of copies."""


def table_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Embedding tables and how they are sharded."""
    if "sharding" in found:
        types = ", ".join(f"{count} {kind}" for kind, count in found["sharding"]["tables_by_type"].items())
        yield ("tables", f"{found['sharding']['tables']:,}", types)


def exchange_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Exchange of a convolutional network's gradients."""
    exchange = found.get("exchange")
    if exchange is not None:
        servers = exchange.get("servers")
        yield ("exchange", exchange["strategy"], "" if servers is None else f"parameter servers: {servers}")


def block_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Number of blocks by decision, and the bytes that the blocks copy."""
    of = found.get("out_of_core")
    if of is not None:
        decisions = ", ".join(f"{count} {name}" for name, count in of["decisions"].items() if count)
        copied = (f"{format_quantity(of['copied_bytes'][key], 'bytes')} {way}" for key, way in WAYS.items())
        yield ("blocks of layers", decisions, f"{' and '.join(copied)}, a rank and iteration; weights: {of['weights']}")


def transformer_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Groups of ranks of a transformer, and its operations."""
    of = found.get("parallelism")
    if of is not None:
        groups = " x ".join(f"{of[name]} {name}" for name in ("data", "tensor", "context", "pipeline") if of[name] > 1)
        flops = f"{of['model_flops_per_token'] / 1e9:.3g} GFLOP a token"
        yield ("parameters", f"{of['parameters'] / 1e9:.2f} billion", f"{groups or 'one rank'}; {flops}")
    if "site_order" in found:
        yield ("sites", f"{len(found['site_order'])}", " > ".join(found["site_order"]))
    if "compression" in found:
        yield ("compression", "", found["compression"])


def peak_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Tensors of the fullest rank at the peak of a step, where they are known task by task."""
    peak = found.get("memory_peak")
    if peak is not None:
        sizes = sorted(peak["bytes"].items(), key=lambda item: -item[1])
        items = ", ".join(f"{name} {format_quantity(float(size), 'bytes')}" for name, size in sizes if size)
        where = f"in {peak['module']}" if peak["module"] else "outside all modules"
        whole = format_quantity(float(sum(peak["bytes"].values())), "bytes")
        yield ("peak of tensors", whole, f"rank {peak['rank']}, {where}, task {peak['task']:,}: {items}")


def server_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Trainers and parameter servers of a DLRM that trains asynchronously."""
    of = found.get("parameter_servers")
    if of is not None:
        trainers = f"{counted(of['trainers'], 'trainers')}, {counted(of['threads'], 'threads')} each"
        busiest = f"the busiest looks up {of['busiest_over_mean_lookups']:.2f} of the mean"
        servers = f"{of['sparse_servers']} of tables ({busiest}), {of['dense_servers']} of dense parameters"
        yield ("parameter servers", trainers, f"{servers}, {counted(of['readers'], 'readers')}")


def latency_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Latency of requests, and load of the servers."""
    serving = found.get("serving")
    if serving is None:
        return
    times = {key: seconds(value) for key, value in serving["latency"].items()}
    low, high = latency_span(serving, "p99_s")
    others = f"p50 {times['p50_s']}, p90 {times['p90_s']}, p99.9 {times['p999_s']}, mean {times['mean_s']}"
    yield ("latency, p99", times["p99_s"], f"8 in 10 between {low} and {high}; {others}")
    capacity = " ".join(rate_in_words(serving["capacity_requests_per_s"], "requests"))
    yield ("capacity", capacity, load_words(serving))


def tier_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Lookups by the tier of their rows."""
    tiers = found.get("tiers")
    if tiers is not None:
        of = {key: percent(value) for key, value in tiers["lookups_found"].items()}
        batch = (
            f"{tiers['batch']['missing_rows']:,.0f} of {tiers['batch']['distinct_rows']:,.0f} rows of a batch missing"
        )
        yield (
            "in GPU caches",
            f"{of['gpu_cache']} of lookups",
            f"host memory {of['host_memory']}, SSDs {of['ssd']}, repeated in the batch {of['repeated']}; {batch}",
        )


def cache_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of tables that caches find."""
    caches = found.get("caches")
    if caches is not None:
        rows, lookups = (100 * caches[key] for key in ("distinct_rows_found", "lookups_found"))
        kernels = ", ".join(f"{count} {name}" for name, count in found["sharding"]["tables_by_kernel"].items())
        yield ("cache hits", f"{lookups:.1f} % of lookups", f"{rows:.1f} % of distinct rows; tables: {kernels}")


def sequence_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Positions of samples and how they are dealt to ranks, and the rank whose tables serve most lookups."""
    of = found.get(SEQUENCES_KEY)
    if of is None:
        return
    positions, served = of["positions_per_sample"], of["served_lookups_on_ranks"]
    dealt = f"; {dealt_in_words(of)}" if ranks_differ(of) else ""
    mean, most = (positions_in_words(positions[key]) for key in ("mean", "maximum"))
    yield ("sequences", f"{mean} positions", f"a sample, at most {most}; {of['layout']}{dealt}")
    if found["world_size"] > 1:
        hottest = f"largest / mean lookups that ranks serve (rank {served['hottest_rank']})"
        yield ("skew of ids", f"{served['largest_over_mean']:.2f}", hottest)


def mode_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Mode of a job that only evaluates."""
    if MODE_KEY in found:
        yield ("mode", found[MODE_KEY], FORWARD_ONLY)


def target_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Time until a target is met."""
    target = found.get(TARGET_KEY)
    if target is not None:
        yield ("time to target", long_time(target["time_s"]), f"{target_span(target)}; {target_work(target)}")
