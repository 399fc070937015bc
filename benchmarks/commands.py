"""Processor time and memory of commands, each in a process of its own, with compiled bytecode as a user has it."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOW_OFTEN = 5
"""Runs whose median is taken of commands that last less than a second."""


@dataclass(frozen=True, slots=True)
class CommandCost:
    """Processor time, user and system, of a process and its children, and the largest memory of the process."""

    cpu_s: float
    peak_rss_bytes: float


_MEASURED = """
import sys
peak = sys.argv.pop(1)
from dlrmsim.__main__ import main
code = main()
try:
    with open("/proc/self/status") as status:
        found = 1024 * int(next(line.split()[1] for line in status if line.startswith("VmHWM")))
except OSError:  # no Linux
    import resource
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(peak, "w") as file:
    file.write(str(found))
sys.exit(code)
"""
"""A process that writes its largest memory: the system's figure for a child counts its parent's memory, too."""


def cost_of(arguments: Sequence[str], *, code: int = 0) -> CommandCost:
    """Cost of ``dlrmsim`` with these arguments.

    Args:
        code: the exit code that it should have.

    Raises:
        RuntimeError: it has another one; its error output is in the message.
    """
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile("r") as peak:
        command = [sys.executable, "-c", _MEASURED, peak.name, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=with_bytecode())
        _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != code:
            said.seek(0)
            shown = " ".join(arguments[:8])
            raise RuntimeError(
                f"dlrmsim {shown} ended with {process.returncode}:\n{said.read().decode(errors='replace')}"
            )
        return CommandCost(usage.ru_utime + usage.ru_stime, float(peak.read() or "nan"))


def median_cpu_s(arguments: Sequence[str]) -> float:
    """Median processor time of a short command."""
    return sorted(cost_of(arguments).cpu_s for _ in range(HOW_OFTEN))[HOW_OFTEN // 2]


@cache
def with_bytecode() -> Mapping[str, str]:
    """Environment in which Python finds the bytecode of this checkout, which is compiled here where it is old."""
    packages = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tests"}
    for package in packages:
        compileall.compile_dir(package, quiet=2)
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
