"""``dlrmsim advise``: print settings that help a job, its best number of devices, or the nodes of arriving jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlrmsim.cli.options import AsJson, Fresh, Settings, Workers, say_taken_over
from dlrmsim.cli.sweep import Scaling

if TYPE_CHECKING:  # loaded by the command
    from rich.console import Console

    from dlrmsim.verbs.advise import AdviseResult
    from reports.text_table import TextTable
    from scenarios.advice import Advice
    from scenarios.arrivals.study import ArrivalAdvice
    from scenarios.size_advice import SizeAdvice

Target = Annotated[
    float | None, typer.Option("--target", help="Amount to train, e.g. 4e9 samples; only for time_to_target.")
]


def advise(
    what: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|JOBS",
            help="A shipped scenario or a YAML file; with --arrivals a file of jobs (see `list jobs`).",
        ),
    ],
    *,
    over: Annotated[
        str | None, typer.Option("--over", metavar="nodes=LIST", help="Sizes to simulate, e.g. nodes=1,2,4,...,64.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="throughput_per_gpu (default), cost or time_to_target.")
    ] = None,
    target: Target = None,
    scaling: Scaling = None,
    arrivals: Annotated[
        bool, typer.Option("--arrivals", help="Simulate a cluster where jobs arrive, and choose nodes for each job.")
    ] = False,
    settings: Settings = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a page and advice.json.")] = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Try settings that may make a job faster or make it fit, or choose its number of devices.

    dlrmsim advise pacml_vgg16 --over nodes=1,2,4,...,64 --scaling strong

    dlrmsim advise pacml_five_networks --arrivals

    Exit code 3: the job does not fit and no tried setting helps, or a queue grows without bound.
    """
    import dlrmsim
    from dlrmsim.cli.printing import print_json
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        found = dlrmsim.advise(
            what,
            over=over,
            objective=objective,
            target=target,
            scaling=None if scaling is None else scaling.value,
            arrivals=arrivals,
            settings=settings or (),
            workers=workers,
            out=out,
            fresh=fresh,
            progress=progress,
        )
    say_taken_over(found.taken_over)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: AdviseResult) -> None:
    """Print the sentences of the advice, its tables, and the path of the page."""
    from dlrmsim.cli.printing import text_console

    console = text_console()
    for sentence in found.sentences:
        console.print(sentence, markup=False, highlight=False)
    if found.tried is not None:
        _print_tried(console, found.tried)
    if found.sizes is not None:
        _print_sizes(console, found.sizes)
    if found.arrivals is not None:
        _print_arrivals(console, found.arrivals)
    if found.page is not None:
        console.print(f"  page  {found.page}", soft_wrap=True)


def _print_sizes(console: Console, found: SizeAdvice) -> None:
    """Print the sizes that ran, and the sizes without a result with their reasons."""
    from reports.size_words import size_gaps, size_table

    console.print(size_table(found))
    for words in size_gaps(found):
        console.print(f"  gap  {words}", markup=False, highlight=False)


def _print_arrivals(console: Console, found: ArrivalAdvice) -> None:
    """Print the times of the jobs, the choices of nodes, and warnings."""
    from reports.arrival_words import arrival_warnings, choices_table, kinds_table

    console.print(kinds_table(found), choices_table(found), sep="\n")
    for words in arrival_warnings(found):
        console.print(f"  warning  {words}", markup=False, highlight=False)


def _print_tried(console: Console, found: Advice) -> None:
    """Print the tried settings, or the settings with which the job fits."""
    if found.bound is None or found.levers is None:
        console.print(found.refusal, markup=False, highlight=False)
        console.print(_remedies(found))
        return
    console.print(f"{found.resolved.name}: {found.bound.finding}\n{found.levers.advice}", markup=False, highlight=False)
    console.print(_levers(found))
    for words in (*(f"does not fit: {setting}" for setting in found.levers.infeasible), *found.levers.notes):
        console.print(f"  note  {words}", markup=False, highlight=False)


def _levers(found: Advice) -> TextTable:
    """A row for each setting that was tried, the best first."""
    from reports.numbers import percent, seconds
    from reports.text_table import TextTable

    made = TextTable().words("setting", "kind").numbers("iteration", "saves").words("basis")
    for lever in found.levers.tried if found.levers else ():
        made.add_row(
            f"--set {lever.setting}", lever.kind, seconds(lever.iteration_time_s), percent(lever.gain), lever.basis
        )
    return made


def _remedies(found: Advice) -> TextTable:
    """A row for each remedy, the fastest for a rank first."""
    from reports.numbers import seconds
    from reports.text_table import TextTable

    made = TextTable(title="settings with which it fits, simulated")
    made.words("settings").numbers("iteration", f"{found.unit}/s of a rank")
    for remedy in found.remedies:
        options = " ".join(f"--set {setting}" for setting in remedy.settings)
        made.add_row(options, seconds(remedy.iteration_time_s), f"{remedy.throughput_per_rank:,.0f}")
    return made
