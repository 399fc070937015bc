"""``dlrmsim replay``: run imported traces in the engine, as measured or changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dlrmsim.cli.options import KeptRanks, Whole

if TYPE_CHECKING:  # loading it takes longer than a command line may take to start
    from traces.replay import changes

Absent = Annotated[
    str | None,
    typer.Option(
        "--absent",
        metavar="none|clones|late",
        help="Ranks without a trace: left out, clones of the traced ranks (default on a cluster), or late by "
        "the time that collectives take beyond their shortest.",
    ),
]
Overlap = Annotated[
    str,
    typer.Option(
        "--overlap", metavar="as_traced|none|hidden", help="Device work: on one stream, or comm awaited by none."
    ),
]
Delay = Annotated[list[str] | None, typer.Option("--delay", metavar="3=2ms", help="Rank 3 is 2 ms late in each step.")]

ClusterName = Annotated[
    str | None, typer.Option("--cluster", help="Collectives on this cluster (default: as measured).")
]
GpuName = Annotated[str | None, typer.Option("--gpu", help="Kernels on this GPU (default: as measured).")]
TracedGpu = Annotated[
    str | None, typer.Option("--from-gpu", help="GPU of the trace (default: by its name in the trace).")
]
WorldSize = Annotated[
    int | None, typer.Option("--world-size", help="Ranks of the job, each with its batch; needs --cluster.")
]
LocalBatch = Annotated[int | None, typer.Option("--local-batch", help="Samples of each rank (default: as traced).")]
CollectivePrecision = Annotated[
    str | None, typer.Option("--collective-precision", metavar="fp16|OP=TYPE,...", help="Floating-point collectives.")
]

HostSpeed = Annotated[
    float, typer.Option("--host-speed", metavar="1.5", help="Host work takes 1/1.5 of its time; waiting is no work.")
]
Launches = Annotated[
    float, typer.Option("--launches", metavar="0.5", help="Host work that ends in a launch takes half of its time.")
]
CudaGraphs = Annotated[
    bool, typer.Option("--cuda-graphs", help="Launches between two waits of the host are one CUDA graph.")
]


def replay(
    traces: Annotated[list[str], typer.Argument(help="Traces of one job, or their folder.", metavar="TRACE...")],
    *,
    cluster: ClusterName = None,
    gpu: GpuName = None,
    from_gpu: TracedGpu = None,
    world_size: WorldSize = None,
    local_batch: LocalBatch = None,
    host_speed: HostSpeed = 1.0,
    launches: Launches = 1.0,
    cuda_graphs: CudaGraphs = False,
    absent: Absent = None,
    overlap: Overlap = "as_traced",
    delay: Delay = None,
    collective_precision: CollectivePrecision = None,
    ranks: KeptRanks = None,
    whole: Whole = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for what `import` writes, of the replay.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run traces in the engine, as measured or on other hardware, another host, other ranks, with other precision."""
    import dlrmsim
    from dlrmsim.cli.parsing import parse_delays, parse_precisions, parse_ranks
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display
    from dlrmsim.cli.replay_headline import print_replay

    with progress_display() as progress:
        done = dlrmsim.replay(
            traces,
            cluster=cluster,
            gpu=gpu,
            from_gpu=from_gpu,
            world_size=world_size,
            local_batch=local_batch,
            absent=cast("changes.Absent | None", absent),
            overlap=cast("changes.Overlap", overlap),
            delays_s=parse_delays(delay or ()),
            precisions=parse_precisions(collective_precision),
            host_speed=host_speed,
            launches=launches,
            cuda_graphs=cuda_graphs,
            ranks=parse_ranks(ranks),
            whole=whole,
            out=out,
            progress=progress,
        )
    if as_json:
        print_json(done.to_dict())
    else:
        print_replay(done)
