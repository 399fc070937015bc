"""Rows about the sections of a summary that only some kinds of workload have; none where a section is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from reports.numbers import counted

Row: TypeAlias = tuple[str, str, str]
"""Label, value and remark."""


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


def transformer_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Groups of ranks of a transformer, and its operations."""
    of = found.get("parallelism")
    if of is not None:
        groups = " x ".join(f"{of[name]} {name}" for name in ("data", "tensor", "context", "pipeline") if of[name] > 1)
        flops = f"{of['model_flops_per_token'] / 1e9:.3g} GFLOP a token"
        yield ("parameters", f"{of['parameters'] / 1e9:.2f} billion", f"{groups or 'one rank'}; {flops}")


def server_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Trainers and parameter servers of a DLRM that trains asynchronously."""
    of = found.get("parameter_servers")
    if of is not None:
        trainers = f"{counted(of['trainers'], 'trainers')}, {counted(of['threads'], 'threads')} each"
        busiest = f"the busiest looks up {of['busiest_over_mean_lookups']:.2f} of the mean"
        servers = f"{of['sparse_servers']} of tables ({busiest}), {of['dense_servers']} of dense parameters"
        yield ("parameter servers", trainers, f"{servers}, {counted(of['readers'], 'readers')}")


def cache_rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of tables that caches find."""
    caches = found.get("caches")
    if caches is not None:
        rows, lookups = (100 * caches[key] for key in ("distinct_rows_found", "lookups_found"))
        kernels = ", ".join(f"{count} {name}" for name, count in found["sharding"]["tables_by_kernel"].items())
        yield ("cache hits", f"{lookups:.1f} % of lookups", f"{rows:.1f} % of distinct rows; tables: {kernels}")
