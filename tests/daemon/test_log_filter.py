"""`holdfast log` omits entries by each option alone, and by all together."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.control.log_filter import LogFilter
from holdfast_process import Agent, Tree

ENTRIES = [
    {
        "time": 10.0,
        "level": "info",
        "event": "old",
        "resource": "file.managed[/etc/app.conf]",
        "cause": "drift",
        "result": "changed",
    },
    {
        "time": 90.0,
        "level": "error",
        "event": "failed",
        "resource": "cmd.run[nginx]",
        "cause": "drift",
        "result": "failed",
    },
    {"time": 91.0, "level": "warning", "event": "again", "resource": "cmd.run[nginx]", "code": "attempt-failed"},
    {
        "time": 92.0,
        "level": "info",
        "event": "still",
        "resource": "pkg.installed[nginx]",
        "cause": "retry",
        "result": "failed",
    },
    {"time": 93.0, "level": "info", "event": "converged"},
]


@pytest.mark.parametrize(
    ("wanted", "events"),
    [
        ({}, ["old", "failed", "again", "still", "converged"]),
        ({"failed": True}, ["failed", "again", "still"]),
        ({"cause": "drift"}, ["old", "failed"]),
        ({"identity": "nginx"}, ["failed", "again", "still"]),
        ({"identity": "cmd.run[nginx]"}, ["failed", "again"]),
        ({"identity": "pkg.*"}, ["still"]),
        ({"identity": "app.conf"}, ["old"]),
        ({"identity": "nginx", "failed": True, "cause": "drift"}, ["failed"]),
        ({"identity": "app.conf", "failed": True}, []),
    ],
    ids=str,
)
def test_an_entry_must_match_all_options(wanted: dict[str, object], events: list[str]) -> None:
    """Each combination of options selects the entries that match all of them."""
    chosen = LogFilter(**wanted)  # type: ignore[arg-type]
    assert [entry["event"] for entry in ENTRIES if chosen(entry)] == events


def test_the_log_of_an_agent_is_searched(tmp_path: Path) -> None:
    """`log` shows all matching lines since a time, not only fifty, and says where the log starts if that is later."""
    tree = Tree(tmp_path)
    tree.config.write_text(tree.config.read_text().replace("console", "console, level: debug"))
    tree.sls("many", "".join(f"n{number}: test.nop\n" for number in range(70)) + "bad: test.fail_without_changes\n")
    with Agent(tree):
        done = tree("log", "--since", "1h", "--resource", "n*", check=0)
        assert len(done.stdout.splitlines()) == 70
        assert done.stderr.startswith("the log begins at ")
        failed = tree("log", "--failed", "--cause", "start", "--format", "json", check=0).stdout.splitlines()
        assert [line for line in failed if "test.fail_without_changes[bad]" not in line] == []
        assert len(failed) == 1
        nothing = tree("log", "--resource", "nothing", check=0)
        assert (nothing.stdout, nothing.stderr) == ("", "the agent's log has no such line\n")
        assert len(tree("log", "--since", "1980-01-01 20:15", "--resource", "n*", check=0).stdout.splitlines()) == 70
        assert tree("log", "--since", "2300-01-01", check=0).stdout == ""
        assert "'tuesday' is not" in tree("log", "--since", "tuesday", check=64).stderr
