"""``python -m benchmarks embedding``: embedding kernels that others timed, and the constants that would fit them.

For each row the error as shipped. Then, per GPU, the memory rate at which its rows would come out right (geometric
mean): what ``embedding_fraction`` of measured GPUs and `simulator.compute.gpu.UPDATE_OVER_LOOKUP` are taken from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.rows import Row
from hardware_specs import load_cluster, load_gpu
from simulator.compute import GpuModel
from simulator.compute.gpu import UPDATE_OVER_LOOKUP
from validation.suites.embedding_rows import EmbeddingRow, embedding_rows

_HALVINGS = 60


def rows() -> Iterator[Row]:
    """Errors, then fitting rates."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in embedding_rows():
        model = model_of(row.gpu)
        error = 100.0 * (float(model.duration_s(row.operator)) / row.time_s - 1.0)
        yield Row(f"{row.gpu}_{row.kind}_{row.time_s * 1e6:.0f}us", error, "% error")
        slower = UPDATE_OVER_LOOKUP if row.kind == "update" else 1.0
        rates[row.gpu, row.kind].append(model.embedding_bytes_per_s * slower * fitting_speed(model, row))
    for (gpu, kind), found in rates.items():
        yield Row(f"{gpu}_{kind}_fits_at", float(np.exp(np.mean(np.log(found)))) / 1e9, "GB/s")


def model_of(name: str) -> GpuModel:
    """The compute model of a GPU; these kernels do not touch its host."""
    return GpuModel(load_gpu(name), load_cluster("zionex").node, launch_s=0.0)


def fitting_speed(model: GpuModel, row: EmbeddingRow) -> float:
    """Factor on the rate of embedding kernels at which the row's time comes out, found by halving."""
    low, high = 0.05, 20.0
    achieved, share = model.gpu.achieved, model.gpu.achieved.embedding_fraction
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        trial = achieved.model_copy(
            update={"embedding_fraction": share.model_copy(update={"value": share.value * middle})}
        )
        seconds = replace(model, gpu=model.gpu.model_copy(update={"achieved": trial})).duration_s(row.operator)
        low, high = (middle, high) if float(seconds) > row.time_s else (low, middle)
    return low
