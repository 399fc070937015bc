"""Waiting until the host of a virtual machine leaves its cores alone.

Only cores that have something to do can be kept from it, so they are kept busy for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from trainer.slices import keep_busy
from trainer.stolen import TABLE, StolenTime
from validation.yardstick import MOST_STOLEN

PATIENCE_S = 60.0
"""That studies wait for the host to leave the cores alone; its spells last about a minute."""
LOOK_S, PAUSE_S = 1.0, 10.0
"""How long the cores are kept busy, and left alone before the next look, seconds."""


def stolen_share(cores: Sequence[int], look_s: float = LOOK_S, table: Path = TABLE) -> float:
    """Share, 0 to 1, of the time of busy cores that the host takes, the mean over them; 0 where no table tells.

    Args:
        cores: which.
        look_s: how long they are kept busy, seconds.
        table: where the system tells what was stolen (`trainer.stolen`).
    """
    stolen = StolenTime(cores, table)
    keep_busy(cores, look_s)
    return stolen.share()


def wait_for_calm(
    cores: Sequence[int],
    patience_s: float,
    look_s: float = LOOK_S,
    pause_s: float = PAUSE_S,
    table: Path = TABLE,
) -> float:
    """Look until hardly anything is stolen (`MOST_STOLEN`), or patience is over; the share at the last look, 0 to 1.

    Args:
        cores: of which.
        patience_s: no look begins later, seconds.
        look_s: as of `stolen_share`.
        pause_s: between two looks, seconds.
        table: as of `stolen_share`.
    """
    begin = time.perf_counter()
    share = stolen_share(cores, look_s, table)
    while share > MOST_STOLEN and time.perf_counter() - begin + pause_s < patience_s:
        time.sleep(pause_s)
        share = stolen_share(cores, look_s, table)
    return share
