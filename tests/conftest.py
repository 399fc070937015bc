"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest

# A shell that starts the tests in the background lets them ignore Ctrl-C, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ONE_PROCESS = (
    "tests/cli/test_cli_calibrate_host.py",
    "tests/cli/test_cli_measure.py",
    "tests/validation/test_framework_suites.py",
    "tests/validation/test_validation_suite.py",
)
"""Files whose tests share what takes long to set up."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of such a file go to one process, all others to whichever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFileWhereShared(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, _ = nodeid.partition("::")
            return file if file in ONE_PROCESS else nodeid

    return ByFileWhereShared(config, log)
