"""Divisors of numbers of ranks, samples and parts."""

from __future__ import annotations


def divisors(number: int) -> list[int]:
    """Divisors of a number, ascending."""
    small = [size for size in range(1, int(number**0.5) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def nearest_divisor(size: int, whole: int) -> int:
    """The divisor of a number that is nearest to a size; the smaller one of two."""
    return min(divisors(whole), key=lambda divisor: abs(divisor - size))
