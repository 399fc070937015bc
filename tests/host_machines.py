"""Hosts with simple costs."""

from hardware_specs.loader import load_library
from hardware_specs.types import Cluster


def chosen(value):
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
    posting_s=0.0,
    waits_s=(0.0, 0.0),
    **kinds,
):
    """Costs; ``waits_s`` of ranks with cores of their own and of ranks that share cores."""
    return {
        "threads": threads,
        "source": "chosen",
        "grade": "assumed",
        "core_cache_bytes": chosen("1 MiB"),
        "shared_cache_bytes": chosen("32 MiB"),
        "collective_cores": collective_cores,
        "posting_s": f"{posting_s!r} s",
        "collective_wait_s": f"{waits_s[0]!r} s",
        "shared_wait_s": f"{waits_s[1]!r} s",
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
                    "cores": chosen(cores),
                    "base_clock_hz": chosen("1 GHz"),
                    "turbo_clock_hz": chosen("1 GHz"),
                    "host_time_factor": chosen(1.0),
                    "kernels": list(measured),
                },
                "sockets": chosen(1),
                "ranks_per_socket": chosen(most_ranks),
                "ddr_bytes": chosen("16 GB"),
                "ddr_bytes_per_s": chosen("10 GB/s"),
                "socket_link_bytes_per_s": chosen("1 GB/s"),
                "nics": {
                    "nic": {"name": "loopback", "bytes_per_s": chosen("1 GB/s"), "latency_s": chosen("1 us")},
                    "count": chosen(1),
                },
            },
            "max_nodes": chosen(nodes),
            "fabric": {
                "kind": "fat_tree",
                "network": "ethernet",
                "spine_oversubscription": chosen(1),
                "hop_latency_s": chosen("1 us"),
            },
            "collectives": load_library("gloo").model_dump(mode="json"),
            "calibration": [],
        }
    )
