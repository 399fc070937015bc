"""What libraries do: how many channels NCCL gives a message on its own, what gloo makes of other operations."""

from __future__ import annotations

import pytest

from hardware_specs import load_cluster
from hardware_specs.loader import load_library

MIB = 2**20


@pytest.mark.parametrize(
    ("ranks", "sizes", "channels"),
    [
        (8, (32, 64, 128, 256, 512, 1024), (4, 4, 8, 16, 32, 32)),
        (4, (32, 64, 128, 256, 512, 1024), (8, 8, 8, 16, 32, 32)),
        (64, (1, 16, 17), (1, 1, 2)),
    ],
)
def test_a_message_gets_more_channels_where_each_would_carry_too_much(ranks, sizes, channels):
    """32 over the number of ranks, doubled while a part is above 16 MiB; the measured rates have these steps."""
    rule = load_cluster("dgx_h100").collectives.nccl.send_channels
    found = [rule.rate_bytes_per_s(ranks, size * MIB) / rule.bytes_per_s.value for size in sizes]
    assert found == pytest.approx(channels)


def test_gloo_makes_a_reduce_scatter_of_a_copy_and_an_all_reduce():
    assert load_library("gloo").made_of == {"reduce_scatter": "all_reduce"}
    assert load_library("open_mpi").made_of == load_cluster("dgx_h100").collectives.made_of == {}
