"""The kernels of a job on another GPU: measured times scaled by the bound of each kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from hardware_specs.processors import Gpu
from inputs.errors import InputError
from simulator.categories import Category
from simulator.compute import gemm_rates, gemm_s
from simulator.lowered import PS_PER_S
from simulator.operators import Copy, Gemm, Measured
from simulator.program import IntArray
from simulator.work import Work, category_of
from traces.kernel_classes import KernelClass, class_of, precision_of
from traces.replay.job import UNKNOWN, ReplayJob


class Method(StrEnum):
    """Method by which a kernel's time was converted to another GPU."""

    SHAPE = "GEMM, model of its shape"
    GEMM = "GEMM without shape, the slower of arithmetic and memory rate"
    EMBEDDING = "embedding kernel, embedding rate"
    STREAMING = "other kernel, streaming rate"
    COPY = "copy inside the GPU, streaming rate"
    KEPT = "copy over PCIe, kept"
    MODEL = "no time in the trace, the machine's model"


@dataclass(frozen=True, slots=True)
class MethodShare:
    """Effect of one method: tasks over all ranks, their time before and after."""

    method: Method
    tasks: int
    before_s: float
    after_s: float


def on_gpu(job: ReplayJob, old: Gpu, new: Gpu) -> tuple[ReplayJob, tuple[MethodShare, ...]]:
    """The job with its kernels on another GPU, and how much of their time each method decided.

    GEMMs of known shape scale with the ratio of the two GPUs' modelled times (tiles, waves, memory). The measured time
    of other kernels is the old GPU's kernel floor plus a rest; the rest scales with the ratio of the GPUs' rates for
    the kernel's bound. So a kernel keeps its efficiency relative to the model. Host tasks, launch latencies and
    collectives stay as they are.

    Args:
        old: the GPU it was traced on.
        new: the GPU it is to run on.

    Raises:
        InputError: the new GPU does not compute in a precision of the job.
    """
    durations = tuple(own.copy() for own in job.durations_ps)
    sums: dict[Method, list[float]] = {}
    floors = (old.achieved.kernel_floor_s.value * PS_PER_S, new.achieved.kernel_floor_s.value * PS_PER_S)
    for program, own in zip(job.graph.programs, durations, strict=True):
        for task, work in enumerate(program.work):
            if category_of(work) not in (Category.COMPUTE, Category.COPY):
                continue
            known = bool(np.all(own[task] != UNKNOWN))
            method, ratio = _ratio(work, old, new) if known else (Method.MODEL, 1.0)
            before = own[task].copy() if known else np.zeros_like(own[task])
            if method is Method.SHAPE:  # its model counts the start of a kernel
                own[task] = np.rint(before * ratio)
            elif method not in (Method.KEPT, Method.MODEL):
                own[task] = _scaled(before, ratio, *floors)
            entry = sums.setdefault(method, [0, 0.0, 0.0])
            entry[0] += program.rank_count
            entry[1] += float(before.sum()) / PS_PER_S
            entry[2] += float(own[task].sum()) / PS_PER_S if known else 0.0
    shares = tuple(MethodShare(m, int(sums[m][0]), sums[m][1], sums[m][2]) for m in Method if m in sums)
    return replace(job, durations_ps=durations), shares


def _scaled(before: IntArray, ratio: float, old_floor_ps: float, new_floor_ps: float) -> IntArray:
    above = np.maximum(before - old_floor_ps, 0.0) * ratio
    at_floor = np.minimum(before / old_floor_ps, 1.0) * new_floor_ps
    scaled: IntArray = np.rint(above + at_floor).astype(np.int64)
    return scaled


def _ratio(work: Work, old: Gpu, new: Gpu) -> tuple[Method, float]:
    """Method, and time on the new GPU over that on the old one."""
    streaming = _stream_rate(old) / _stream_rate(new)
    if isinstance(work, Copy):
        return (Method.COPY, streaming) if work.direction == "d2d" else (Method.KEPT, 1.0)
    if not isinstance(work, Measured) or work.category is Category.COPY:
        return Method.COPY, streaming
    if work.shape is not None:
        return Method.SHAPE, _gemm_s(new, work.shape) / _gemm_s(old, work.shape)
    kind = class_of(work.name)
    if kind is KernelClass.EMBEDDING:
        rates = old.embedding_bytes_per_s, new.embedding_bytes_per_s
        return Method.EMBEDDING, rates[0] / rates[1]
    if kind is KernelClass.GEMM:
        precision = precision_of(work.name)
        return Method.GEMM, max(_gemm_rate(old, precision) / _gemm_rate(new, precision), streaming)
    return Method.STREAMING, streaming


def _gemm_s(gpu: Gpu, shape: Gemm) -> float:
    return float(np.max(gemm_s(shape, gemm_rates(gpu, shape.precision))))


def _gemm_rate(gpu: Gpu, precision: str) -> float:
    return gpu.peak_flops_per_s(precision) * gpu.achieved.gemm_fraction.value


def _stream_rate(gpu: Gpu) -> float:
    return gpu.memory_bytes_per_s.value * gpu.achieved.stream_fraction.value


def gpu_of_device(device: str, names: Iterable[str], asked: str = "--from-gpu") -> str:
    """Name of the shipped GPU that a device is, by the words of both names.

    Where no name's words are all among the device's, as of "NVIDIA H100 80GB HBM3", it is the only one of its model
    that is on PCIe or not, as the device is, and of its memory where the name has a size. A part of one (MIG) is none.

    Args:
        device: name that the driver gives.
        names: names of the shipped GPUs.
        asked: option that names one.

    Raises:
        InputError: none or several.
    """
    known, lowered = sorted(names), device.lower()
    words = set(re.findall(r"[a-z0-9]+", lowered.replace("gb", "")))
    sizes = set(re.findall(r"(\d+) ?gb", lowered))
    found = [name for name in known if words.issuperset(name.split("_"))] or _names_like(words, sizes, known)
    if "mig" in words:
        found = []
    if len(found) != 1:
        raise InputError(
            "is needed: its name does not identify the GPU",
            file=asked,
            given=device or None,
            expected=f"one of {', '.join(known)}",
        )
    return found[0]


def _names_like(words: Container[str], sizes: Collection[str], names: Iterable[str]) -> list[str]:
    """Names of the model that is among the words, with the same form, and the same memory where ``sizes`` are known."""
    parts = {name: name.split("_") for name in names}
    return [
        name
        for name, of in parts.items()
        if all(word in words for word in _model(of))
        and all((form in of) == (form in words) for form in ("pcie", "nvl"))
        and (not sizes or of[-1] in sizes)
    ]


def _model(parts: Sequence[str]) -> Sequence[str]:
    """Words of a GPU's model: up to the first word with a digit (rtx_3080_10), or all words but its memory."""
    numbered = (place for place, word in enumerate(parts[:-1]) if any(map(str.isdigit, word)))
    return parts[: next(numbered, len(parts) - 2) + 1]
