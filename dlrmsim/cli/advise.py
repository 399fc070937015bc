"""``dlrmsim advise``: print settings that may make a job faster or, where it does not fit, make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlrmsim.cli.options import AsJson, Scenario, Settings

if TYPE_CHECKING:  # loaded by the command
    from dlrmsim.verbs.advise import AdviseResult
    from reports.text_table import TextTable


def advise(scenario: Scenario, *, settings: Settings = None, as_json: AsJson = False) -> None:
    """Try settings that may make a job faster, or make it fit; print what each saves.

    Exit code 3: the job does not fit, and nothing that was tried helps.
    """
    import dlrmsim
    from dlrmsim.cli.printing import print_json, text_console
    from dlrmsim.cli.progress import progress_display

    with progress_display() as progress:
        found = dlrmsim.advise(scenario, settings=settings or (), progress=progress)
    if as_json:
        print_json(found.to_dict())
        return
    console = text_console()
    if found.bound is None or found.levers is None:
        console.print(found.refusal, markup=False, highlight=False)
        console.print(_remedies(found))
        return
    console.print(f"{found.resolved.name}: {found.bound.finding}\n{found.levers.advice}", markup=False, highlight=False)
    console.print(_levers(found))
    for words in (*(f"does not fit: {setting}" for setting in found.levers.infeasible), *found.levers.notes):
        console.print(f"  note  {words}", markup=False, highlight=False)


def _levers(found: AdviseResult) -> TextTable:
    """A row for each setting that was tried, the best first."""
    from reports.numbers import percent, seconds
    from reports.text_table import TextTable

    made = TextTable().words("setting", "kind").numbers("iteration", "saves").words("basis")
    for lever in found.levers.tried if found.levers else ():
        made.add_row(
            f"--set {lever.setting}", lever.kind, seconds(lever.iteration_time_s), percent(lever.gain), lever.basis
        )
    return made


def _remedies(found: AdviseResult) -> TextTable:
    """A row for each remedy, the fastest for a rank first."""
    from reports.numbers import seconds
    from reports.text_table import TextTable

    made = TextTable(title="settings with which it fits, simulated")
    made.words("settings").numbers("iteration", f"{found.unit}/s of a rank")
    for remedy in found.remedies:
        options = " ".join(f"--set {setting}" for setting in remedy.settings)
        made.add_row(options, seconds(remedy.iteration_time_s), f"{remedy.throughput_per_rank:,.0f}")
    return made
