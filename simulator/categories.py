"""Categories of time in breakdowns."""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """Kind of a task's time in breakdowns."""

    COMPUTE = "compute"
    COMM = "comm"
    COPY = "copy"
    HOST = "host"
    INPUT = "input"
    IDLE = "idle"


INPUT_SECTION = "input"
"""Section of the tasks that bring the next batch in."""

INPUT_CATEGORIES = (Category.HOST, Category.COPY, Category.INPUT)
"""Categories of such tasks that are neither on the GPU nor on the network."""
