"""Two real ranks that hand a number to and fro."""

import json
import subprocess
import sys

import pytest

from tests.unit.test_trainer_rank_children import ROOT
from trainer.pin import usable_cores

RANK = """
import json, sys
import torch.distributed as dist
from trainer.passing import Passing
from trainer.pin import pin, usable_cores
rank, ranks, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
pin([usable_cores()[rank % 2]])
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
passing = Passing()
print(json.dumps([passing.has_partner, [passing.round_s() for _ in range(5)] if passing.has_partner else []]))
dist.barrier()
"""


def passed(ranks, meeting):
    command = [sys.executable, "-c", RANK]
    started = [
        subprocess.Popen([*command, str(rank), str(ranks), str(meeting)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    return [json.loads(process.communicate(timeout=120)[0]) for process in started]


@pytest.mark.skipif(len(usable_cores()) < 2, reason="ranks have no core each")
def test_partners_tell_the_same_time_there_and_back(tmp_path):
    """Of 200 rounds each, the least of five: neither lost its core in that. It is microseconds, not milliseconds."""
    (has_partner, first_s), (_, second_s) = passed(2, tmp_path / "meeting")
    assert has_partner
    assert 20e-9 < min(first_s) < 100e-6
    assert min(first_s) == pytest.approx(min(second_s), rel=0.3)


def test_the_last_of_an_odd_number_has_no_partner(tmp_path):
    ((has_partner, told),) = passed(1, tmp_path / "meeting")
    assert not has_partner
    assert told == []
