"""Settings with which a job fits, and the error for a job that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inputs.errors import InfeasibleError
from scenarios.capacity import MemoryReport


@dataclass(frozen=True, slots=True)
class FittingSettings:
    """Settings with which a job fits.

    Attributes:
        settings: ``KEY=VALUE`` each.
        memory: memory of every rank with these settings.
        note: fact that is printed with the settings.
    """

    settings: tuple[str, ...]
    memory: MemoryReport
    note: str = ""

    def in_words(self) -> str:
        """The options of a command line, and in brackets the memory of the fullest rank."""
        options = " ".join(f"--set {setting}" for setting in self.settings)
        return f"{options} ({'; '.join(part for part in (self.note, self.memory.fullest()) if part)})"


def refusal_with(name: str, memory: MemoryReport, why: str, found: Sequence[FittingSettings]) -> InfeasibleError:
    """The error for a job that does not fit: the numbers of each tier, and remedies.

    Args:
        name: name of the job.
        memory: memory of the job, or of its variant that is nearest to fitting.
        why: reason of the failure.
        found: remedies with which the job fits.
    """
    advice = (f"  would fit: {remedy.in_words()}" for remedy in found)
    lines = [f"{name} does not fit: {why}", memory.in_words(), *advice]
    return InfeasibleError("\n".join(lines), remedies=[remedy.settings for remedy in found])
