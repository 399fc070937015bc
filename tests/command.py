"""The command as it was installed, which is what a user starts."""

import sys
from pathlib import Path


def installed_command() -> str:
    """Path of ``dlrmsim`` beside this Python.

    ``python -m dlrmsim`` is the same but for one thing: where an interrupt falls into an ``exec`` of the standard
    library, CPython ends by the signal after all, whatever exit code was asked for.
    """
    return str(Path(sys.executable).with_name("dlrmsim"))
