"""Jobs of two ranks that hypothesis invents: what a machine would do with them, as Kineto traces."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.trace_files import KinetoRank

times = st.integers(1, 40)
actions = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "copy", "collective", "sync", "python"]),
        st.tuples(times, times),  # host time before the call, on each rank
        times,  # length of the call
        st.tuples(times, times),  # latency from the call's begin, on each rank
        st.tuples(times, times),  # length of the device work, on each rank
        st.sampled_from([7, 20]),
    ),
    min_size=1,
    max_size=14,
)


def two_traces(steps) -> list[KinetoRank]:
    """What a machine would do: streams in order, collectives end with the last arrival, a member some time later."""
    ranks = [KinetoRank(rank, 2) for rank in range(2)]
    now, free = [0, 0], [{7: 0, 20: 0}, {7: 0, 20: 0}]
    for kind, before, call, latency, length, stream in steps:
        now = [n + b for n, b in zip(now, before, strict=True)]
        if kind == "sync":
            for rank, own in enumerate(ranks):
                end = max(*free[rank].values(), now[rank]) + 1
                own.call("cudaDeviceSynchronize", now[rank], end - now[rank])
                now[rank] = end
        elif kind != "python":
            starts = [max(free[r][stream], now[r] + latency[r]) for r in range(2)]
            if kind == "collective":
                done = max(starts) + length[0]
                ends = [done, done + length[1] % 3]
            else:
                ends = [s + d for s, d in zip(starts, length, strict=True)]
            for rank, own in enumerate(ranks):
                launch, span = (now[rank], call), (starts[rank], ends[rank] - starts[rank])
                _launch(own, kind, launch, span, stream)
                free[rank][stream] = ends[rank]
                now[rank] += call
    for rank, own in enumerate(ranks):
        own.step(1, 0, max(now[rank], *free[rank].values()) + 1)
    return ranks


def _launch(own, kind, launch, span, stream) -> None:
    if kind == "kernel":
        own.kernel("gemm", launch, span, stream=stream)
    elif kind == "copy":
        own.kernel("Memcpy HtoD", launch, span, stream=stream, cat="gpu_memcpy", bytes=8)
    else:
        told = {"Collective name": "allreduce", "In msg nelems": 4, "dtype": "Float"}
        own.kernel("ncclDevKernel_AllReduce", launch, span, stream=stream, **told)
