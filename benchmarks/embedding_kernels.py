"""Embedding kernels that others timed against the compute model, and the constants that would fit them.

    python benchmarks/embedding_kernels.py

For each row the error as shipped. Then, per GPU, the memory rate at which its lookups would come out right (geometric
mean over its rows), and how much slower updates are than that rate: what `embedding_bytes_per_s` of measured GPUs and
`UPDATE_OVER_LOOKUP` of `simulator.compute.gpu` are taken from.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hardware_specs import load_cluster, load_gpu
from simulator.compute import GpuModel
from simulator.compute.gpu import UPDATE_OVER_LOOKUP
from validation.embedding_rows import EmbeddingRow, embedding_rows


def model_of(name: str) -> GpuModel:
    """The compute model of a GPU; these kernels do not touch its host."""
    return GpuModel(load_gpu(name), load_cluster("zionex").node, launch_s=0.0)


def fitting_speed(row: EmbeddingRow) -> float:
    """Factor on the rate of embedding kernels at which the row's time comes out: the model's time is met by halving."""
    model, low, high = model_of(row.gpu), 0.05, 20.0
    rate = model.gpu.achieved.embedding_bytes_per_s
    for _ in range(60):
        middle = (low * high) ** 0.5
        faster = model.gpu.achieved.model_copy(
            update={"embedding_bytes_per_s": rate.model_copy(update={"value": rate.value * middle})}
        )
        seconds = replace(model, gpu=model.gpu.model_copy(update={"achieved": faster})).duration_s(row.operator)
        low, high = (middle, high) if seconds > row.time_s else (low, middle)
    return low


def main() -> None:
    """Print errors and fitting constants."""
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in embedding_rows():
        model = model_of(row.gpu)
        predicted = float(model.duration_s(row.operator))
        error = 100.0 * (predicted / row.time_s - 1.0)
        print(
            f"{row.gpu:14} {row.kind:7} measured {row.time_s * 1e6:8.1f} us  predicted {predicted * 1e6:8.1f} us  "
            f"{error:+6.1f} %  {row.source}"
        )
        slower = UPDATE_OVER_LOOKUP if row.kind == "update" else 1.0
        rates[row.gpu, row.kind].append(model.embedding_bytes_per_s * slower * fitting_speed(row))
    for (gpu, kind), found in rates.items():
        fit = float(np.exp(np.mean(np.log(found))))
        print(f"{gpu:14} {kind:7} fits at {fit / 1e9:7.0f} GB/s")


if __name__ == "__main__":
    main()
