"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("holdfast", deadline=None)  # a busy machine is no failure of a property
settings.load_profile("holdfast")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """On CI everything the tests need is there: a skipped test is one that did not run."""
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("CI") and skipped:
        terminalreporter.section("skipped on CI: a failure")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Make it so."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
