"""What holds for all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A shell that starts the tests in the background lets them ignore Ctrl-C, nohup the end of the terminal, and what they
# start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What Python compiles it keeps, whatever the shell says: the tests start hundreds of processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("reproducible", print_blob=True, deadline=None)  # machines are shared: no test fails by time
settings.load_profile("reproducible")

ONE_PROCESS = (
    "tests/browser/test_every_page.py",
    "tests/browser/test_report_opens.py",
    "tests/capture/test_examples.py",
    "tests/capture/test_programs.py",
    "tests/capture/test_steps.py",
    "tests/capture/test_wrong_steps.py",
    "tests/cli/test_cli_calibrate_host.py",
    "tests/cli/test_cli_measure.py",
    "tests/property/test_traces_round_trip.py",
    "tests/unit/test_scenarios_transformer_plan.py",
    "tests/unit/test_trainer_ranks.py",
    "tests/validation/test_host_accuracy.py",
    "tests/validation/test_replays_of_public_traces.py",
)
"""Files whose tests share what takes long to set up."""

SUITE_FILES = (
    "tests/validation/test_cpu_cluster_suite.py",
    "tests/validation/test_framework_suites.py",
    "tests/validation/test_intervals.py",
    "tests/validation/test_validation_suite.py",
)
"""Files whose tests look at the same suites (`tests.suite_runs`)."""

ONE_PROCESS_EACH = ("tests/laws/test_bounds.py", "tests/laws/test_scenarios.py")
"""Files whose tests of one scenario, the first part of their names, share what takes long to set up."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of such a file go to one process, all others to whichever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFileWhereShared(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, _ = nodeid.partition("::")
            if file in ONE_PROCESS_EACH:
                return f"{file}::{nodeid.partition('[')[2].rstrip(']').partition('-')[0]}"
            if file in SUITE_FILES:
                return "suites"
            return file if file in ONE_PROCESS else nodeid

    return ByFileWhereShared(config, log)


def pytest_collection_modifyitems(config, items):
    """Long tests come first where several processes share the tests: none is left alone with one at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter):
    """Failures are printed with the commit; those of properties have the seed of their example already."""
    if terminalreporter.stats.get("failed"):
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        terminalreporter.write_line(f"commit {described.stdout.strip() or 'unknown'}")


MOST_SKIPS = 12
"""Largest number of skipped tests of a whole run; more means that a dependency or a browser is missing."""


def pytest_sessionfinish(session, exitstatus):
    """A run of all tests with too many skips fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or exitstatus:
        return
    skipped = len(reporter.stats.get("skipped", []))
    reporter.write_line(f"{skipped} skipped, at most {MOST_SKIPS} are allowed")
    if skipped > MOST_SKIPS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
