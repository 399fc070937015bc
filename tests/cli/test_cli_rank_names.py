"""Output for people names the devices that hold ranks: GPUs, sockets of CPU clusters, ranks of a measured host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlrmsim.cli import main

JOBS = [
    ("synthetic_tiny", ["nodes=1"], "GPUs"),
    ("cpu_dlrm_small", ["nodes=1"], "sockets"),
    ("criteo_small", ["world_size=2"], "ranks"),
]
NAMES = ("GPU", "socket")
"""Beginnings of the names of devices."""


def words_of(page: Path) -> str:
    """Text of a page without its scripts, origins of numbers and scenario."""
    text = re.sub(r"<(script|style|pre|tbody).*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", text)


@pytest.mark.parametrize(("scenario", "settings", "name"), JOBS)
def test_runs_and_sweeps_name_the_devices_of_ranks(scenario, settings, name, tmp_path, capsys):
    changes = [part for setting in settings for part in ("--set", setting)]
    key, ranks = ("world_size", "1,2") if name == "ranks" else ("nodes", "1,2")
    assert main(["run", scenario, *changes, "--check"]) == 0
    assert main(["run", scenario, *changes, "--no-levers", "--out", str(tmp_path / "run")]) == 0
    assert main(["sweep", scenario, "--over", f"{key}={ranks}", "--out", str(tmp_path / "sweep")]) == 0

    printed = capsys.readouterr().out
    shown = {
        "output": printed,
        "run": words_of(tmp_path / "run" / "report.html"),
        "sweep": words_of(tmp_path / "sweep" / "scaling.html"),
    }
    for place, words in shown.items():
        assert re.search(rf"\d {name}\b", words), place
        assert f"per {name[:-1]}" in words, place
        for other in NAMES:
            if not name.startswith(other):
                around = [words[max(0, m.start() - 40) : m.end() + 20] for m in re.finditer(rf"\b{other}s?\b", words)]
                assert around == [], place
