"""``dlrmsim calibrate``: fit machine constants to measurements."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlrmsim.cli.command_group import CommandGroup
from dlrmsim.cli.measure import DeviceChoice
from dlrmsim.cli.options import Fresh, say_taken_over
from dlrmsim.cli.terminal import print_line, say

if TYPE_CHECKING:  # loading them takes longer than a command line may take to start
    from dlrmsim.hosts.cpus import HostSpec
    from dlrmsim.hosts.gpus import GpuSpec

calibrate = typer.Typer(cls=CommandGroup, rich_markup_mode=None, help="Fit machine constants to measurements.")


@calibrate.callback()
def _calibrate() -> None:
    """Fit machine constants to measurements."""


@calibrate.command("collectives")
def collectives(
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="Logs of nccl-tests, or CSV files.")],
    *,
    cluster: Annotated[str, typer.Option("--cluster", help="Cluster to start from: its nodes, fabric and library.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the fitted cluster.")],
    rule: Annotated[
        str | None, typer.Option("--rule", help="Rows to fit on, e.g. 'nodes <= 2'; the others are predicted.")
    ] = None,
    op: Annotated[str | None, typer.Option("--op", help="Operation of logs that do not name it.")] = None,
) -> None:
    """Fit a fabric's parameters to measured collectives and write a cluster spec."""
    import dlrmsim
    from dlrmsim.cli.printing import print_facts, text_console
    from dlrmsim.cli.progress import progress_display
    from reports.tables import error_groups
    from validation.fits.spec_text import fit_in_words

    with progress_display() as progress:
        found = dlrmsim.calibrate_collectives(logs, cluster=cluster, rule=rule, op=op, out=out, progress=progress)
    print_facts(
        [*fit_in_words(found.fitted), *([("protocols between nodes", found.protocols)] if found.protocols else [])]
    )
    text_console().print(error_groups(map(asdict, found.groups)))
    if found.unseen is not None:
        world = found.unseen
        print_line(f"  {world.nodes} x {world.ranks_per_node} predicted by a fit of the smaller worlds:")
        text_console().print(error_groups(map(asdict, world.groups)))
    for remark in found.remarks:
        print_line(f"  {remark}")
    print_line(f"  wrote {found.file}; use it as cluster: {found.file}")


@calibrate.command("clock")
def clock(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="Suites whose calibration cases count.")],
    *,
    gpu: Annotated[str, typer.Option("--gpu", help="GPU of the cases, to start from.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the fitted GPU.")],
    fresh: Fresh = False,
) -> None:
    """Fit the rate that a GPU's tensor cores keep in training to the calibration cases of suites."""
    import dlrmsim
    from dlrmsim.cli.printing import print_facts
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        found = dlrmsim.calibrate_clock(suites, gpu=gpu, out=out, fresh=fresh, progress=progress)
    say_taken_over(found.taken_over)
    errors = ", ".join(f"{error:+.1f}" for error in found.errors_pct)
    print_facts([("sustained_fraction", f"{found.fraction:.3g}"), ("errors of the cases, %", errors)])
    print_line(f"  wrote {found.file}; use it as gpu: {found.file}")


@calibrate.command("framework")
def framework(
    name: Annotated[str, typer.Argument(metavar="FRAMEWORK", help="Profile to fit: name or path.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the fitted profile.")],
    suite: Annotated[
        list[str] | None, typer.Option("--suite", help="Suites whose calibration cases count (default: the profile's).")
    ] = None,
    constant: Annotated[
        list[str] | None, typer.Option("--constant", help="Constants to fit, at most four (default: the profile's).")
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Fit the few constants of a framework profile to the calibration cases of suites."""
    import dlrmsim
    from dlrmsim.cli.printing import print_facts
    from dlrmsim.cli.progress import progress_display
    from validation.fits.framework_fit import in_words

    with progress_display() as progress:
        found = dlrmsim.calibrate_frameworks(
            name, suites=suite or (), constants=constant or (), out=out, fresh=fresh, progress=progress
        )
    say_taken_over(found.taken_over)
    print_facts((what, in_words(what, value)) for what, value in found.fitted.values.items())
    print_line(f"  {found.fitted.residuals}")
    print_line(f"  wrote {found.file}; use it as workload.framework: {found.file}")


@calibrate.command("kernels")
def kernels(
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="CSV of kernels, or the name of a shipped table.")],
    *,
    gpu: Annotated[str, typer.Option("--gpu", help="GPU to start from.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the fitted GPU.")],
    rule: Annotated[
        str | None, typer.Option("--rule", help="Rows to fit on, e.g. 'kind == gemm'; the others are predicted.")
    ] = None,
) -> None:
    """Fit what a GPU's kernels reach to measured ones and write a GPU spec."""
    import dlrmsim
    from dlrmsim.cli.printing import print_facts, text_console
    from dlrmsim.cli.progress import progress_display
    from reports.tables import kernel_errors, kernel_groups
    from validation.fits.spec_text import kernel_fit_in_words

    with progress_display() as progress:
        found = dlrmsim.calibrate_kernels(rows, gpu=gpu, rule=rule, out=out, progress=progress)
    console = text_console()
    console.print(kernel_errors(map(asdict, found.cases)))
    console.print(kernel_groups(map(asdict, found.groups)))
    print_facts(kernel_fit_in_words(found.fit))
    print_line(f"  wrote {found.file}; use it as gpu: {found.file}")


@calibrate.command("overheads")
def overheads(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE...", help="Kineto traces of one machine.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of the profile.")],
    framework: Annotated[
        str | None,
        typer.Option("--framework", help="Profile that the rest is taken from.", show_default="pytorch_2021"),
    ] = None,
) -> None:
    """Take the host time of each operator, T1 to T5, from Kineto traces and write a framework profile.

    T1: since the operator before; T2: before the first launch; T3: after the last one; T4: of a launch; T5: between
    two. Each is a median without outliers, times beyond 1.5 interquartile ranges of the quartiles.
    """
    import dlrmsim
    from dlrmsim.cli.printing import text_console
    from dlrmsim.cli.progress import progress_display
    from dlrmsim.verbs.calibrate_overheads import BASE
    from reports.tables import overheads_by_operator

    with progress_display() as progress:
        found = dlrmsim.calibrate_overheads(traces, framework=framework or BASE, out=out, progress=progress)
    text_console().print(overheads_by_operator(map(asdict, found.rows)))
    shared = [row for row in found.rows if row.name == "*"]
    left_out = sum(row.left_out for row in shared)
    times = left_out + sum(row.kept for row in shared)
    print_line(f"  {found.operators:,} calls of operators with {found.launches:,} launches")
    print_line(
        f"  {left_out:,} of the {times:,} times in the rows * are outliers and left out; operators have their own"
    )
    print_line(f"  wrote {found.file}; use it as workload.framework: {found.file}")


@calibrate.command("host")
def host(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="YAML file of this machine as a cluster.")] = Path(
        "host.yaml"
    ),
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Time that measuring may take.", show_default="3")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the sizes that are timed.", show_default="0")
    ] = None,
    device: Annotated[
        DeviceChoice | None, typer.Option("--device", help="Device to time. Default: cuda where there is a GPU.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="Cluster for all values not timed on GPUs (default: one with the GPU)."),
    ] = None,
    record: Annotated[
        list[str] | None,
        typer.Option("--record", metavar="FILE", help="Fit an earlier measurement (or NAME: a shipped one)."),
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Time kernels and collectives of this machine with PyTorch and write the cluster that it is."""
    import dlrmsim
    from dlrmsim.cli.progress import progress_display
    from dlrmsim.hosts.cpus import HostSpec

    with progress_display() as progress:
        found = dlrmsim.calibrate_host(
            record or (),
            minutes=minutes,
            seed=seed,
            device=device,
            cluster=cluster,
            out=out,
            fresh=fresh,
            progress=progress,
        )
    say_taken_over(found.taken_over)
    spec = found.spec
    if isinstance(spec, HostSpec):
        _print_cpus(spec)
    else:
        _print_gpus(spec)


def _print_cpus(found: HostSpec) -> None:
    """Print the calibration of CPUs for people."""
    from dlrmsim.cli.printing import text_console
    from reports.text_table import TextTable

    table = TextTable().numbers("threads").words("kernels").numbers("rows", "median error", "worst", "noise")
    for known in found.cluster.node.cpu.kernels:
        for kind, cost in known.costs.items():
            errors = (f"{cost.median_error_pct:.1f} %", f"{cost.worst_error_pct:+.0f} %", f"{cost.noise_pct:.1f} %")
            table.add_row(str(known.threads), kind, str(cost.rows), *errors)
    text_console().print(table)
    if found.cluster.fitted is not None:
        print_line(f"  collectives: {found.cluster.fitted.rows}")
    print_line(f"  wrote {found.file} and {found.rows} in {found.seconds:.0f} s; use it as cluster: {found.file}")
    if found.warning:
        say(f"  warning: {found.warning}")


def _print_gpus(found: GpuSpec) -> None:
    """Print the calibration of GPUs for people."""
    from dlrmsim.cli.printing import print_facts, text_console
    from reports.text_table import TextTable
    from validation.fits.framework_fit import in_words
    from validation.fits.spec_text import kernel_fit_in_words
    from validation.suites.errors import statistics

    kernels = TextTable().words("kernels").numbers("rows", "mean error", "bias", "worst")
    for kind, errors in found.fit.errors_pct.items():
        of = statistics(errors)
        shown = (f"{of['mape_pct']:.1f} %", f"{of['bias_pct']:+.1f} %", f"{of['worst_pct']:+.0f} %")
        kernels.add_row(kind, str(len(errors)), *shown)
    fitted, framework = found.fit.cluster.fitted, found.fit.framework
    constants = framework.values if framework else {}
    text_console().print(kernels)
    print_facts(
        [*kernel_fit_in_words(found.fit.kernels), *((name, in_words(name, value)) for name, value in constants.items())]
    )
    if found.fit.has_collectives and fitted is not None:
        print_line(f"  collectives: {fitted.rows}")
    else:
        print_line("  collectives: none was timed, there is one GPU")
    print_line(f"  iterations: {framework.residuals if framework else 'too few jobs'}")
    print_line(f"  wrote {found.file} in {found.seconds:.0f} s; use it as cluster: {found.file}")
    if found.framework is not None:
        print_line(f"  wrote {found.framework}; use it as workload.framework: {found.framework}")
