"""The command line: one file per subcommand, each parses, calls `dlrmsim.api`, prints.

`main` is the entry point. It turns the exception tree into one message on stderr and an exit code: 0 done, 2 the
user's input, 3 infeasible, 130 interrupted, 1 a fault of ours (with its traceback, for the report).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from dlrmsim.cli.init import init
from dlrmsim.cli.list_names import list_names
from dlrmsim.cli.run import run
from dlrmsim.cli.schema import schema
from dlrmsim.cli.show import show
from dlrmsim.cli.sweep import sweep
from dlrmsim.cli.validate import validate
from inputs.errors import DlrmsimError

INTERRUPTED = 130

app = typer.Typer(
    name="dlrmsim",
    help="Simulate distributed training of deep learning recommendation models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run)
app.command("sweep")(sweep)
app.command("validate")(validate)
app.command("list")(list_names)
app.command("show")(show)
app.command("schema")(schema)
app.command("init")(init)


def _print_version(wanted: bool) -> None:
    if wanted:
        from dlrmsim import __version__

        typer.echo(f"dlrmsim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Simulate distributed training of deep learning recommendation models."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (default: the process's) and return the exit code."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dlrmsim")
    except SystemExit as exit_:
        return _exit_code(exit_)
    except DlrmsimError as error:
        typer.echo(f"dlrmsim: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except Exception:  # noqa: BLE001 - whatever else happens is our fault, and its traceback is what a report needs
        traceback.print_exc()
        typer.echo("dlrmsim: this is a fault of dlrmsim, not of your input; please report it.", err=True)
        return 1
    return 0


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code == INTERRUPTED:
        return _interrupted()
    return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)


def _interrupted() -> int:
    typer.echo("dlrmsim: interrupted; nothing was written", err=True)
    return INTERRUPTED


def _forget_stdout() -> None:
    """Let Python's flush at exit write nowhere, the reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
