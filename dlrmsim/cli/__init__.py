"""The command line: one file per subcommand, each parses, calls one verb, prints.

`main` is the entry point. It turns the exception tree into one message on stderr and an exit code: 0 done, 2 the
user's input, 3 infeasible, 130 interrupted, 1 a fault of ours (with its traceback, for the report).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import cast

import typer

from dlrmsim.cli.advise import advise
from dlrmsim.cli.calibrate import calibrate
from dlrmsim.cli.capture import capture
from dlrmsim.cli.collective import collective
from dlrmsim.cli.command_group import CommandGroup
from dlrmsim.cli.compare import compare
from dlrmsim.cli.export import export
from dlrmsim.cli.fetch_traces import fetch_traces
from dlrmsim.cli.import_traces import import_traces
from dlrmsim.cli.init import init
from dlrmsim.cli.list_names import list_names
from dlrmsim.cli.measure import measure
from dlrmsim.cli.plan import plan
from dlrmsim.cli.replay import replay
from dlrmsim.cli.run import run
from dlrmsim.cli.schema import schema
from dlrmsim.cli.show import show
from dlrmsim.cli.solve import solve
from dlrmsim.cli.sweep import sweep
from dlrmsim.cli.terminal import (
    file_refused,
    flush_output,
    is_about_a_file,
    is_about_output,
    output_lost,
    prepare_output,
    say,
)
from dlrmsim.cli.validate import validate
from dlrmsim.cli.what_if import what_if
from inputs.errors import DlrmsimError, InfeasibleError
from inputs.given import cut

INTERRUPTED = 130
MAX_USAGE = 500
"""Characters of a message on a wrong command line, which repeats arguments whole."""
USAGE_ERROR = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])
"""Exception that typer raises for a wrong command line; it has no public name there."""


COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "sweep": sweep,
    "solve": solve,
    "what-if": what_if,
    "plan": plan,
    "advise": advise,
    "collective": collective,
    "capture": capture,
    "measure": measure,
    "validate": validate,
    "import": import_traces,
    "replay": replay,
    "export": export,
    "compare": compare,
    "fetch-traces": fetch_traces,
    "list": list_names,
    "show": show,
    "schema": schema,
    "init": init,
}
GROUPS: dict[str, typer.Typer] = {"calibrate": calibrate}
"""Commands and groups of commands by name, in the order of the help."""


def application(arguments: Sequence[str] = ()) -> typer.Typer:
    """The command line; of ``arguments`` that begin with a command, that command alone, as parsers of all take long."""
    app = typer.Typer(
        name="dlrmsim",
        cls=CommandGroup,
        rich_markup_mode=None,
        help="Simulate distributed training of deep learning recommendation models.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    only = {asked} & {*COMMANDS, *GROUPS} or {*COMMANDS, *GROUPS}
    for name, command in COMMANDS.items():
        if name in only:
            app.command(name)(command)
    for name, group in GROUPS.items():
        if name in only:
            app.add_typer(group, name=name)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from dlrmsim import __version__

        typer.echo(f"dlrmsim {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Simulate distributed training of deep learning recommendation models."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (default: the process's) and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    prepare_output()
    try:
        code = application(given)(args=given, prog_name="dlrmsim", standalone_mode=False)
        flush_output()
    except (KeyboardInterrupt, typer.Abort) as interrupt:
        return _interrupted(interrupt.__cause__ or interrupt)
    except Exception as error:  # noqa: BLE001 - whatever happens becomes one message and an exit code
        return _failed(error)
    return _interrupted(KeyboardInterrupt()) if code == INTERRUPTED else code or 0


def _failed(error: Exception) -> int:
    """Print the error; a fault of ours with its traceback, which is what a report needs."""
    if isinstance(error, DlrmsimError):
        say(f"dlrmsim: {error}")
        return error.exit_code
    if isinstance(error, USAGE_ERROR):
        return _misused(error)
    if isinstance(error, MemoryError):
        say("dlrmsim: the memory that this process may take is full; simulate fewer ranks or tasks")
        return InfeasibleError.exit_code
    if isinstance(error, OSError) and is_about_output(error):
        return output_lost(error)
    if isinstance(error, OSError) and is_about_a_file(error):
        return file_refused(error)
    traceback.print_exception(error)
    say("dlrmsim: this is a fault of dlrmsim, not of your input; please report it.")
    return 1


def _misused(error: typer.BadParameter) -> int:
    """Print one line on the mistake in the command line; without any arguments the help was shown instead."""
    message = cut(error.format_message().replace("Value error, ", "").rstrip("."), MAX_USAGE)
    command = error.ctx.command_path if error.ctx else "dlrmsim"
    if message:
        say(f"dlrmsim: {message}; {command} --help lists the options")
    return 2


def _interrupted(interrupt: BaseException) -> int:
    """Print what an interrupt has left."""
    left = "; ".join(getattr(interrupt, "__notes__", [])) or "nothing was written"
    say(f"dlrmsim: interrupted; {left}")
    return INTERRUPTED
