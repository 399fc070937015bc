"""Classes of kernels by name, which decide how kernel times scale from one GPU to another."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache

from simulator.categories import Category
from simulator.operators import Measured
from simulator.work import Work


class KernelClass(StrEnum):
    """Kinds of kernels, by their bound."""

    GEMM = "GEMM"
    EMBEDDING = "embedding"
    STREAMING = "streaming"


_GEMM = re.compile(r"gemm|cutlass|cublas|splitk|gemv|xmma|_s\d{3,4}|dot_kernel", re.IGNORECASE)
"""cuBLAS's and CUTLASS's kernels."""
_EMBEDDING = re.compile(r"split_embedding|dense_embedding|embedding_?bag|embedding_codegen", re.IGNORECASE)
"""FBGEMM's and PyTorch's embedding kernels."""


@cache
def class_of(name: str) -> KernelClass:
    """The class of a kernel, by its name; those that are neither GEMMs nor embeddings stream."""
    if _EMBEDDING.search(name):
        return KernelClass.EMBEDDING
    return KernelClass.GEMM if _GEMM.search(name) else KernelClass.STREAMING


def is_sharded_lookup(work: Work) -> bool:
    """Whether a kernel reads or updates tables that are sharded: FBGEMM's data-parallel ones are called dense."""
    if not isinstance(work, Measured) or work.category is not Category.COMPUTE:
        return False
    return class_of(work.name) is KernelClass.EMBEDDING and "dense" not in work.name


@cache
def precision_of(name: str) -> str:
    """The precision a GEMM kernel computes in, by cuBLAS's and CUTLASS's names; fp32 where they say nothing."""
    text = name.lower()
    marks = {"tf32": ("s1688", "tf32", "tensorop_s"), "fp16": ("h884", "h1688", "h16816", "f16", "hgemm", "s884")}
    if "bf16" in text:
        return "bf16"
    return next((precision for precision, own in marks.items() if any(mark in text for mark in own)), "fp32")
