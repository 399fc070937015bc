"""``python -m benchmarks traces``: imports of public traces against reading them, and a Chakra job of 4096 ranks.

Needs the public traces (`dlrmsim fetch-traces`), where DLRMSIM_TRACES says or beside the checkout.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.rows import Row, in_fresh_process

ROOT = Path(os.environ.get("DLRMSIM_TRACES") or Path(__file__).resolve().parents[2] / "shared" / "traces")
KINETO = "a100_8ranks_rec_rank3/trace_diff__control__control.json.gz"
CHAKRA = "chakra_dlrm_64/identical/dlrm.0.et"
RANKS = 4096


def rows() -> Iterator[Row]:
    """Times are those of one core (CPU time), so that a busy machine changes them little."""
    if (ROOT / KINETO).exists():
        yield from _kineto(ROOT / KINETO)
    if (ROOT / CHAKRA).exists():
        yield from _chakra(ROOT / CHAKRA)


def _kineto(file: Path) -> Iterator[Row]:
    """The whole import against `ijson.basic_parse` (yajl2_c) that merely reads the file; the best of 3 each."""
    reading, importing = [], []
    for _ in range(3):
        reading.append(cpu_seconds(lambda: read_tokens(file)))
        importing.append(cpu_seconds(lambda: _import_kineto(file)))
    yield Row("ijson_read_s", min(reading), "s")
    yield Row("kineto_import_s", min(importing), "s")
    yield Row("import_speed_over_ijson", min(reading) / min(importing), "", ">= 0.6")


def read_tokens(file: Path) -> None:
    """Read every token of a gzip-compressed JSON file."""
    import ijson

    with gzip.open(file) as stream:
        for _ in ijson.get_backend("yajl2_c").basic_parse(stream):
            pass


def _import_kineto(file: Path) -> None:
    from traces.kineto.importer import import_kineto

    import_kineto([file])


def _chakra(template: Path) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        jittered_copies(template, Path(folder), RANKS)
        found = simulate_in_fresh_process(Path(folder))
    yield Row("chakra_4096_import_s", found["import_s"], "s")
    yield Row("chakra_4096_engine_s", found["engine_s"], "s", "<= 1")
    yield Row("chakra_4096_total_s", found["import_s"] + found["engine_s"], "s", "<= 10")
    yield Row("chakra_4096_peak_mib", found["peak_mib"], "MiB", "<= 1024")


def jittered_copies(template: Path, folder: Path, ranks: int) -> None:
    """Write a Chakra trace for ``ranks`` ranks, compute times uniform(0.8, 1.2) in whole microseconds."""
    from traces.chakra.messages import messages, read_nodes
    from traces.source import chunks

    nodes = [node for node, *_ in read_nodes(template, chunks(template))]
    head = messages()["GlobalMetadata"](version="0.0.4").SerializeToString()
    draw, base = random.Random(1), [node.duration_micros for node in nodes]  # noqa: S311 - no secret
    for rank in range(ranks):
        parts = [bytes([len(head)]), head]
        for node, duration in zip(nodes, base, strict=True):
            node.duration_micros = round(duration * draw.uniform(0.8, 1.2))
            payload = node.SerializeToString()
            parts += [bytes([len(payload)]), payload]
        (folder / f"dlrm.{rank}.et").write_bytes(b"".join(parts))


def simulate_in_fresh_process(folder: Path) -> dict[str, float]:
    """CPU seconds of import and lowering and of the engine, peak MiB: the job of a folder in a process of its own."""
    return in_fresh_process("benchmarks.traces", [str(folder)])


def _simulate(folder: Path) -> dict[str, float]:
    from hardware_specs.loader import load_cluster
    from simulator.engine import RunOptions, run
    from simulator.lowering import build_machine, lower
    from traces.chakra.importer import import_chakra

    begin = time.process_time()
    imported = import_chakra(sorted(folder.glob("*.et")))
    machine = build_machine(load_cluster("fat_tree_16k"), imported.world_size, launch_s=0.0)
    lowered = lower(imported.graph, machine).program
    before = time.process_time()
    run(lowered, RunOptions(max_iterations=1))
    end = time.process_time()
    return {"import_s": before - begin, "engine_s": end - before, "peak_mib": peak_mib()}


def peak_mib() -> float:
    """Peak memory of this process since it was executed (``ru_maxrss`` would count the process it was forked from)."""
    status = Path("/proc/self/status")
    if status.exists():
        found = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(found.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def cpu_seconds(action: Callable[[], None]) -> float:
    """CPU time of an action."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


if __name__ == "__main__":
    print(json.dumps(_simulate(Path(sys.argv[1]))))
