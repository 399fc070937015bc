"""Time in which this rank's own thread issues collectives and waits for them. Needs no PyTorch.

Two for the process, as its CPU time is: collectives are started and waited for all over the trainer. On a GPU only the
host's part is in it, that of autograd's thread included.
"""

from __future__ import annotations

import time


class Stopwatch:
    """Runs within a ``with`` block; blocks do not overlap.

    Attributes:
        total_s: time in all blocks that are over, seconds.
        cpu_s: CPU time of the thread meanwhile, seconds.
    """

    def __init__(self) -> None:
        """No block yet."""
        self.total_s = self._since = 0.0
        self.cpu_s = self._cpu_since = 0.0

    def __enter__(self) -> None:
        """Go on."""
        self._cpu_since = time.thread_time()
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.total_s += time.perf_counter() - self._since
        self.cpu_s += time.thread_time() - self._cpu_since


ISSUING, WAITING = Stopwatch(), Stopwatch()
"""Stopwatches of this process: calls that issue collectives, and waits for them."""
