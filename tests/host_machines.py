"""Hosts to compute on, with costs that are easy to reckon with."""

from hardware_specs.loader import load_library
from hardware_specs.types import Cluster


def told(value):
    return {"value": value, "source": "chosen", "grade": "assumed"}


def costs(**seconds_per):
    return {
        "seconds_per": {name: f"{value!r} s" for name, value in seconds_per.items()},
        "rows": 1,
        "median_error_pct": 0.0,
        "worst_error_pct": 0.0,
        "noise_pct": 0.0,
    }


def kernels(
    threads=1,
    collective_cores=0.0,
    latency_cores=0.0,
    posting_s=0.0,
    system_share=0.0,
    waits=(0.0, 0.0),
    threads_spread=0.0,
    call_lost_shares=(0.0, 0.0),
    shared=(1.0, 0.0),
    shared_posting_s=None,
    turn_s=0.0,
    overlaps=(0.0, 0.0),
    after_calls=(0.0, 0.0),
    kept=(0.5, 0.5),
    **kinds,
):
    """Costs.

    ``waits``: what collectives take longer than alone, and the spread of what cores work, ``threads_spread`` that by
    the work of threads of collectives; ``call_lost_shares``: what calls lose for each second that data move, and of
    ranks that take turns; ``shared``: how much slower ranks are that take turns, and what their collectives take
    longer; ``overlaps``: what of data has moved when the last member comes, and of ranks that take turns;
    ``after_calls``: likewise what interrupts them after a call; ``kept``: what kernels keep of a core beside
    collectives of which no data move, and of which they do.
    """
    return {
        "threads": threads,
        "source": "chosen",
        "grade": "assumed",
        "core_cache_bytes": told("1 MiB"),
        "shared_cache_bytes": told("32 MiB"),
        "collective_cores": collective_cores,
        "collective_latency_cores": latency_cores,
        "posting_s": f"{posting_s!r} s",
        "system_share": system_share,
        "collective_wait_s": f"{waits[0]!r} s",
        "work_spread": waits[1],
        "threads_spread": threads_spread,
        "call_lost_share": call_lost_shares[0],
        "shared_call_lost_share": call_lost_shares[1],
        "kernel_share_posting": kept[0],
        "kernel_share_moving": kept[1],
        "turn_s": f"{turn_s!r} s",
        "shared_slower": shared[0],
        "shared_posting_s": None if shared_posting_s is None else f"{shared_posting_s!r} s",
        "shared_wait_s": f"{shared[1]!r} s",
        "after_call_s": f"{after_calls[0]!r} s",
        "shared_after_call_s": f"{after_calls[1]!r} s",
        "overlap": overlaps[0],
        "shared_overlap": overlaps[1],
        "costs": kinds,
    }


def host(cores, *measured, nodes=1, most_ranks=16):
    """A node with so many cores, and what was measured on it for some numbers of threads."""
    return Cluster.model_validate(
        {
            "name": "host",
            "node": {
                "name": "host",
                "cpu": {
                    "name": "cpu",
                    "vendor": "amd",
                    "cores": told(cores),
                    "base_clock_hz": told("1 GHz"),
                    "turbo_clock_hz": told("1 GHz"),
                    "host_time_factor": told(1.0),
                    "kernels": list(measured),
                },
                "sockets": told(1),
                "ranks_per_socket": told(most_ranks),
                "ddr_bytes": told("16 GB"),
                "ddr_bytes_per_s": told("10 GB/s"),
                "socket_link_bytes_per_s": told("1 GB/s"),
                "nics": {
                    "nic": {"name": "loopback", "bytes_per_s": told("1 GB/s"), "latency_s": told("1 us")},
                    "count": told(1),
                },
            },
            "max_nodes": told(nodes),
            "fabric": {
                "kind": "fat_tree",
                "network": "ethernet",
                "spine_oversubscription": told(1),
                "hop_latency_s": told("1 us"),
            },
            "collectives": load_library("gloo").model_dump(mode="json"),
            "calibration": [],
        }
    )
