"""Place and time of a run, for ``run.json``."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dlrmsim import __version__

LIBRARIES = ("numpy", "simpy", "pydantic", "pyarrow", "plotly")
"""Libraries whose version can change a result or a file."""


def environment() -> dict[str, Any]:
    """Time, host and versions, as JSON values."""
    return {
        "version": __version__,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "command": sys.argv,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
