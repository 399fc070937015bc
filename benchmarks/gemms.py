"""``python -m benchmarks gemms [--svg FILE]``: GEMMs of many shapes against published bands, and the time it takes.

The bands are medians of the fraction of the peak per range of FLOPs, BF16, over all shapes in
ai-dynamo/aiconfigurator@095f58a5 ``systems/data/*/gemm``. Ours are over a grid of powers of two, because the shapes
behind the bands were not kept, so a bound is a factor of 1.6. Nothing is fitted to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.rows import Row
from hardware_specs import load_cluster
from hardware_specs.loader import load_gpu
from simulator.compute import GpuModel
from simulator.operators import FloatArray, Gemm
from validation.fits.kernel_fit import predicted_s
from validation.suites.kernel_rows import kernel_rows

EDGES_FLOPS = (1e9, 3e9, 1e10, 3e10, 1e11, 3e11, 1e13)
BANDS = {"zionex": (0.25, 0.39, 0.54, 0.70, 0.82, 0.83), "dgx_h100": (0.14, 0.26, 0.47, 0.70, 0.75, 0.75)}
"""Medians by range, on an A100 and an H100."""
OFF = 1.6
ROWS = 2.0 ** np.arange(14)
COLUMNS = 2.0 ** np.arange(6, 14)
RANKS = 4096
COLORS = {"a100_sxm4_40": "#1f77b4", "h100_sxm5_80": "#2ca02c", "v100_sxm2_16": "#d62728"}
SIDE, MARGIN, DECADES = 420, 50, (-6.0, -2.0)


def rows(svg: Path | None) -> Iterator[Row]:
    """Median fractions of the peak by range of FLOPs, and the time to work out shapes of all ranks."""
    for cluster, published in BANDS.items():
        model = _model(cluster)
        shapes = np.array(list(product(ROWS, COLUMNS, COLUMNS)))
        flops = 2.0 * shapes.prod(axis=1)
        seconds = np.asarray(model.duration_s(Gemm(shapes[:, 0], shapes[:, 1], shapes[:, 2], "bf16")))
        fraction = flops / seconds / model.gpu.peak_flops_per_s("bf16")
        for low, high, band in zip(EDGES_FLOPS, EDGES_FLOPS[1:], published, strict=False):
            inside = fraction[(flops >= low) & (flops < high)]
            name = f"{cluster}_{low:.0e}_flops"
            yield Row(f"{name}_p10", float(np.percentile(inside, 10)), "of the peak")
            yield Row(f"{name}_median", float(np.median(inside)), "of the peak")
            yield Row(f"{name}_p90", float(np.percentile(inside, 90)), "of the peak")
            off = float(np.exp(abs(np.log(np.median(inside) / band))))
            yield Row(f"{name}_off", off, "x the band's", f"<= {OFF}")
    yield _speed()
    if svg is not None:
        svg.write_text(picture(), encoding="utf-8")


def _model(cluster: str) -> GpuModel:
    node = load_cluster(cluster).node
    return GpuModel(node.accelerator, node, launch_s=0.0)


def _speed() -> Row:
    """An MLP of 20 layers forward and backward on ranks of two batch sizes."""
    model, batch = _model("zionex"), np.where(np.arange(RANKS) % 2, 512.0, 520.0)
    start = process_time()
    for layer in range(20):
        for shape in ((batch, 4000, 4008 + layer), (batch, 4008 + layer, 4000), (4000, 4008 + layer, batch)):
            model.duration_s(Gemm(shape[0], shape[1], shape[2], "tf32"))
    return Row(f"60_gemms_on_{RANKS}_ranks", 1e3 * (process_time() - start), "ms", "<= 500")


def picture() -> str:
    """Predicted over measured times of all GEMMs that ship, logarithmic from 1 us to 10 ms, as SVG."""
    line = f'<line x1="{_at(1e-6)}" y1="{SIDE - _at(1e-6)}" x2="{_at(1e-2)}" y2="{SIDE - _at(1e-2)}" stroke="#888"/>'
    parts = [f'<rect width="{SIDE}" height="{SIDE}" fill="white"/>', line]
    for time_s, text in ((1e-6, "1 us"), (1e-5, "10 us"), (1e-4, "100 us"), (1e-3, "1 ms"), (1e-2, "10 ms")):
        parts.append(f'<text x="{_at(time_s)}" y="{SIDE - MARGIN / 2}" text-anchor="middle">{text}</text>')
        parts.append(f'<text x="{MARGIN - 8}" y="{SIDE - _at(time_s)}" text-anchor="end">{text}</text>')
    for place, (name, color) in enumerate(COLORS.items()):
        measured, predicted = _times(name)
        parts.append(f'<text x="{MARGIN + 20}" y="{40 + 18 * place}" fill="{color}">{name}</text>')
        parts += [
            f'<circle cx="{_at(m)}" cy="{SIDE - _at(p)}" r="3" fill="{color}" fill-opacity="0.6"/>'
            for m, p in zip(measured.tolist(), predicted.tolist(), strict=True)
        ]
    parts.append(f'<text x="{SIDE / 2}" y="{SIDE - 6}" text-anchor="middle">measured</text>')
    parts.append('<text x="6" y="18">predicted</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _times(name: str) -> tuple[FloatArray, FloatArray]:
    gemms = [row for row in kernel_rows(name) if row.kind == "gemm"]
    return np.array([row.time_s for row in gemms]), predicted_s(load_gpu(name), gemms)


def _at(time_s: float) -> float:
    """Place of a time on an axis, pixels."""
    share = (np.log10(time_s) - DECADES[0]) / (DECADES[1] - DECADES[0])
    return round(float(MARGIN + share * (SIDE - 2 * MARGIN)), 1)
