"""dlrmsim: a discrete-event simulator of distributed DLRM training.

The face of the application: `dlrmsim.verbs.run` joins the rooms (run, check, catalogues, schemas), `dlrmsim.cli` is the
command line on top of it. ``import dlrmsim`` gives the functions of the api without loading any of them yet.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = ["RunRequest", "__version__", "check", "load_scenario", "run"]


def __getattr__(name: str) -> Any:
    """Load `dlrmsim.verbs.run` when one of its functions is first asked for."""
    if name in __all__:
        return getattr(import_module("dlrmsim.verbs.run"), name)
    raise AttributeError(f"module 'dlrmsim' has no attribute {name!r}")
