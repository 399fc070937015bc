"""Small traces that tests write: Kineto events of a rank, Chakra nodes, PyTorch execution traces."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from traces.chakra.messages import messages

PUBLIC = Path(os.environ.get("DLRMSIM_TRACES") or Path(__file__).resolve().parents[2] / "shared" / "traces")
"""Where public traces lie; `dlrmsim fetch-traces` gets them."""
HOST, BACKWARD = 100, 101
"""Threads of the traces written here."""


def public(*parts: str) -> list[Path]:
    """Files of a public trace, or skip the test."""
    files = sorted(PUBLIC.glob("/".join(parts)))
    if not files:
        pytest.skip(
            f"public trace {'/'.join(parts)} is not in {PUBLIC}: `dlrmsim fetch-traces`, docs/reference/traces.md"
        )
    return files


class KinetoRank:
    """Events of one rank; times in us."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.head: dict[str, Any] = {"distributedInfo": {"rank": rank, "world_size": world_size}}
        self.events: list[dict[str, Any]] = []
        self._correlation = 0

    def x(self, cat: str, name: str, ts: float, dur: float, *, tid: int = HOST, pid: int = 1, **args: Any) -> dict:
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        self.events.append(event)
        return event

    def step(self, number: int, ts: float, dur: float) -> None:
        self.x("user_annotation", f"ProfilerStep#{number}", ts, dur)

    def op(self, name: str, ts: float, dur: float, *, tid: int = HOST, **args: Any) -> None:
        self.x("cpu_op", name, ts, dur, tid=tid, **args)

    def call(self, name: str, ts: float, dur: float, *, tid: int = HOST) -> int:
        self._correlation += 1
        self.x("cuda_runtime", name, ts, dur, tid=tid, correlation=self._correlation)
        return self._correlation

    def kernel(
        self,
        name: str,
        launch: tuple[float, float],
        run: tuple[float, float],
        *,
        stream: int = 7,
        tid: int = HOST,
        cat: str = "kernel",
        **args: Any,
    ) -> None:
        """A launching call and what it launched, each (start, duration)."""
        correlation = self.call("cudaLaunchKernel" if cat == "kernel" else "cudaMemcpyAsync", *launch, tid=tid)
        self.x(cat, name, *run, tid=stream, pid=0, correlation=correlation, stream=stream, device=0, **args)

    def text(self) -> str:
        return json.dumps(self.head | {"traceEvents": self.events})

    def write(self, file: Path) -> Path:
        text = self.text().encode()
        file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
        return file


def two_ranks(world_size: int = 2) -> list[KinetoRank]:
    """One step on two ranks: a GEMM, an all_reduce rank 1 comes late to, a copy, a wait of the host for it.

    Rank 1's GEMM takes 40 us instead of 10, so rank 0 waits 30 us in the all_reduce, whose transfer takes 5 us.
    """
    ranks = []
    for rank in range(2):
        own, late = KinetoRank(rank, world_size), 30.0 * rank
        own.step(1, 0.0, 200.0)
        own.op("aten::mm", 2.0, 10.0)
        own.kernel("gemm", (5.0, 4.0), (12.0, 10.0 + late))
        own.op("record_param_comms", 20.0, 10.0)
        own.kernel(
            "ncclDevKernel_AllReduce_Sum_f32",
            (22.0, 3.0),
            (30.0 + late, 35.0 - late),
            stream=20,
            **{"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "Float", "Group size": world_size},
        )
        own.kernel("Memcpy DtoH (Device -> Pinned)", (40.0, 3.0), (70.0, 10.0), cat="gpu_memcpy", bytes=4096)
        own.call("cudaDeviceSynchronize", 50.0, 32.0)
        own.op("optimizer", 90.0, 20.0)
        own.kernel("adam", (100.0, 5.0), (110.0, 20.0))
        ranks.append(own)
    return ranks


def write_ranks(folder: Path, ranks: list[KinetoRank]) -> list[Path]:
    return [own.write(folder / f"rank{number}.json") for number, own in enumerate(ranks)]


def chakra_bytes(nodes: list[dict[str, Any]], version: str = "0.0.4") -> bytes:
    """Length-delimited messages; a node is a dict of its fields, ``attrs`` maps names to int, bool or str.

    ``behind`` are bytes behind a node's fields.
    """
    made = [messages()["GlobalMetadata"](version=version).SerializeToString()]
    for fields in nodes:
        own = dict(fields)
        attributes, behind = own.pop("attrs", {}), own.pop("behind", b"")
        node = messages()["Node"](**own)
        for name, value in attributes.items():
            kind = "bool_val" if isinstance(value, bool) else "int64_val" if isinstance(value, int) else "string_val"
            node.attr.add(name=name, **{kind: value})
        made.append(node.SerializeToString() + behind)
    return b"".join(_varint(len(message)) + message for message in made)


def _varint(value: int) -> bytes:
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            return out + bytes([low])
        out += bytes([low | 0x80])


def chakra_iteration(compute_us: int = 100) -> list[dict[str, Any]]:
    """Compute, an all_reduce of 1 MiB behind it, more compute beside it, an end behind both."""
    return [
        {"id": 1, "name": "forward", "type": 4, "duration_micros": compute_us, "attrs": {"is_cpu_op": False}},
        {"id": 2, "name": "reduce", "type": 7, "data_deps": [1], "attrs": {"comm_type": 0, "comm_size": 1 << 20}},
        {"id": 3, "name": "backward", "type": 4, "data_deps": [1], "duration_micros": 50},
        {"id": 4, "name": "update", "type": 4, "data_deps": [2, 3], "duration_micros": 10},
    ]
