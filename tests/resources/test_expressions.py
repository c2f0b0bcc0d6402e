"""Regular expressions of states: matched in this process or by a worker, with the same result, for a limited time."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from deadline import DEADLINE
from effort import longest_pause
from holdfast.agent.host.host import LocalHost
from holdfast.resources import expressions, registry
from holdfast.resources.errors import Permanent
from holdfast.resources.expressions import Expression, Unbounded
from holdfast.states.helpers import find

LONG = "a" * 60 + "b"
"""A name that makes `(a+)+$` take two to the power of 60 steps."""


@pytest.fixture
def slow(monkeypatch):
    """Matches are ended after 0.3 s."""
    monkeypatch.setattr(expressions, "DEADLINE", 0.3)


@pytest.mark.parametrize(
    ("pattern", "text", "short"),
    [
        (r"\.git$", "x" * 250, True),
        (r"^(.*/)?\.git(/.*)?$", "x" * 100, True),
        (r"\d{1,3}(\.\d{1,3}){3}", "192.168.100.200", True),
        ("(foo|bar)+", "foobar" * 20, True),
        ("(?>a+)+b", "a" * 60, False),
        ("(a+)+$", LONG, False),
        ("(a|a)*$", LONG, False),
        ("(?i:(a|A.)*)$", LONG, False),
        ("(a?){40}$", LONG, False),
        ("a?" * 40 + "a" * 40, "a" * 40, False),
        ("(?:a|aa)" * 40 + "$", LONG, False),
        (r".*.*.*.*.*=", "a" * 250, False),
        (r"(\w+\.)*x", LONG, False),
        (r"(a)?(?(1)(a+)*|b)$", LONG, False),
        (r"(?=(a+)+$)", LONG, False),
    ],
)
def test_what_may_take_long_is_left_to_a_worker(pattern, text, short):
    """The parts of the pattern and the length of the text decide this."""
    assert Expression(pattern)._is_short("search", text) is short


@pytest.mark.parametrize("how", ["search", "match", "fullmatch"])
@pytest.mark.parametrize("text", ["", "a.b.c", "\udcff\n\u202e", "a.b.c" * 9])
def test_a_worker_finds_what_is_found_here(how, text):
    """The results are the same with groups, without groups, without a match, and for text that is not Unicode."""
    for pattern in (r"(\w+\.)*(c)", r"(?:[^x]*)*", "(x+)+"):
        found = getattr(re, how)(pattern, text)
        assert getattr(Expression(pattern), how)(text) == (found and (found.groups() or (found[0],)))


def test_many_matches_apart_need_one_process(monkeypatch):
    """A worker is reused: starting one for each match would take twenty seconds."""
    started = []
    start = expressions._start
    monkeypatch.setattr(expressions, "_start", lambda: started.append(start()) or started[-1])
    found = [Expression(r"(\w+\.)*txt").search(f"{number}.x.txt") for number in range(1000)]

    assert all(found)
    assert len(started) <= 1


def test_a_worker_that_was_killed_is_replaced():
    """The next match uses a new worker."""
    Expression("(a+)+").search("a")
    for worker in expressions._idle:
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    assert Expression("(a+)+").search("a") == ("a",)


def test_an_idle_worker_ends(monkeypatch):
    """A worker without work ends, and leaves neither a zombie nor a descriptor."""
    for worker in expressions._idle:
        worker.kill()
    while any(thread.name == "holdfast-worker" for thread in threading.enumerate()):
        pass
    before = psutil.Process().num_fds()
    monkeypatch.setattr(expressions, "IDLE", 0.01)
    Expression("(a+)+").search("a")
    while expressions._idle:
        pass
    while any(thread.name == "holdfast-worker" for thread in threading.enumerate()):
        pass

    assert psutil.Process().num_fds() == before
    assert Expression("(a+)+").search("a") == ("a",)


def test_a_match_is_ended_when_the_agent_has_gone():
    """The timer belongs to the worker, so it also works when the agent was killed. It takes the second of this test."""
    code = (
        "from holdfast.resources import expressions; expressions.DEADLINE = 1; "
        f"expressions.Expression('(a+)+$').search({LONG!r})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as agent:
        while not (children := psutil.Process(agent.pid).children()):
            pass
        descriptor = os.pidfd_open(children[0].pid)
        agent.kill()
    ended, _, _ = select.select([descriptor], [], [], DEADLINE)
    os.close(descriptor)

    assert ended


def test_a_result_that_is_too_large_is_refused(monkeypatch):
    """A lookahead that captures the rest of the text makes a text of quadratic length."""
    monkeypatch.setattr(expressions, "SIZE", 100_000)

    with pytest.raises(Unbounded, match="the result has more than"):
        Expression("(?=(.*))").sub(r"\1", "a" * 3000)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("file.directory", {"clean": True, "exclude_pat": ["E@(a+)+$"]}),
        ("file.directory", {"user": "root", "recurse": ["user"], "exclude_pat": ["E@(a+)+$"]}),
        ("file.recurse", {"source": "salt://tree", "exclude_pat": ["E@(a+)+$"]}),
        ("file.recurse", {"source": "salt://tree", "include_pat": ["E@(a|a)*$"]}),
        ("file.recurse", {"source": "salt://good", "clean": True, "exclude_pat": ["E@(a+)+b\\d"]}),
    ],
)
async def test_a_name_that_a_pattern_takes_too_long_on_fails_its_state_alone(tmp_path, kind, arguments):
    """The error names the pattern, nothing is removed, and the event loop runs meanwhile."""
    for name in ("tree", "good", "managed"):
        (tmp_path / name).mkdir()
    (tmp_path / "good/file").touch()
    (tmp_path / "tree" / LONG).touch()
    (tmp_path / "managed" / LONG).touch()
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        ctx = host.context(f"{kind}[x]")

        async def given_up():
            with pytest.raises(
                Permanent, match=r"regular expression '\(a.*takes longer than 0\.3 s on a text of 61 characters"
            ):
                await registry.find(kind).declare(str(tmp_path / "managed"), **arguments).check_apply(ctx, True)

        assert await longest_pause(given_up, 0.25) < 0.25
    assert (tmp_path / "managed" / LONG).exists()


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("option", ["regex", "iregex"])
def test_file_find_gives_up_a_name_that_takes_too_long(tmp_path, option):
    """The call of the template fails."""
    (tmp_path / LONG).touch()

    with pytest.raises(Unbounded, match="takes longer"):
        find.find(SimpleNamespace(), str(tmp_path), **{option: "(a+)+$"})
