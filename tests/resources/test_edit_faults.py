"""Edits under bad conditions, on the real host.

Expressions that never end, files that other programs write meanwhile, and files that are too large.
"""

from __future__ import annotations

import re
import threading
import time

import pytest

from effort import longest_pause
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.cpu_timeout import CpuTimeExceeded, cpu_timeout
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.kinds.file import edit, edit_subprocess

ENDLESS = r"^(a+)+$"
"""An expression that takes exponential time on a line with another letter at its end."""


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path.parent / f"{tmp_path.name}.var", durable=False) as host:
        yield host


@pytest.fixture
def path(tmp_path):
    """A file to edit."""
    path = tmp_path / "f"
    path.write_text("a" * 60 + "b\n")
    return path


async def run(host, kind, path, **arguments):
    """Return whether a run of one resource changed something, and its context."""
    ctx = host.context(f"{kind}[{path}]")
    return not await registry.find(kind).declare(str(path), **arguments).check_apply(ctx, True), ctx


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("file.replace", {"pattern": ENDLESS}),
        ("file.comment", {"regex": ENDLESS}),
        ("file.line", {"mode": "delete", "match": ENDLESS}),
        ("file.blockreplace", {"insert_after_match": ENDLESS}),
    ],
)
async def test_an_expression_that_never_ends_holds_nothing_up(host, path, kind, arguments, monkeypatch):
    """The match is ended, and the error has a hint. Meanwhile the event loop runs."""
    monkeypatch.setattr(edit_subprocess, "DEADLINE", 1.0)

    async def given_up():
        with pytest.raises(Permanent, match="would take longer than 1 s; look for repetitions within repetitions"):
            await run(host, kind, path, **arguments)

    assert await longest_pause(given_up, 0.9) < 0.9
    assert path.read_text() == "a" * 60 + "b\n"


async def test_an_edit_that_takes_long_is_made_all_the_same(host, path, monkeypatch):
    """A process of its own makes the edit; bytes that are not text are kept."""
    monkeypatch.setattr(edit, "BRIEF", 1e-6)
    path.write_bytes(b"\xff a\n" * 20000)

    changed, _ = await run(host, "file.replace", path, pattern="a$", repl="b")

    assert changed
    assert path.read_bytes() == b"\xff b\n" * 20000
    with pytest.raises(Permanent, match="the replacement does not fit the pattern"):
        await run(host, "file.replace", path, pattern="b", repl=r"\1")


async def test_what_others_write_meanwhile_is_not_lost(host, path, monkeypatch):
    """A file that has changed since it was read is not replaced; the failure is temporary."""
    replace = registry.find("file.replace")

    def slow(self, text, given):
        path.write_text("somebody else's\n")
        return "ours\n"

    monkeypatch.setattr(replace, "edited", slow)
    ctx = host.context("file.replace[f]")
    with pytest.raises(ChangedMeanwhile, match="another program has changed the file during the edit"):
        await replace.declare(str(path), pattern="a").check_apply(ctx, True)

    assert path.read_text() == "somebody else's\n"
    assert not ctx.report.touched
    assert [one.name for one in path.parent.iterdir()] == ["f"]


async def test_a_huge_file_is_refused_before_it_is_read(host, path):
    """Several copies of the file would be held in memory."""
    with path.open("wb") as file:
        file.truncate(65 << 20)

    with pytest.raises(Permanent, match="it has 65 MB; files of more than 64 MB are not edited"):
        await run(host, "file.append", path, text="x")


def test_the_cpu_timeout_ends_an_edit():
    """The error is raised within the body, not after it, and only in the main thread."""
    with pytest.raises(CpuTimeExceeded, match=r"more than 0\.01 s of CPU time"), cpu_timeout(0.01):
        re.fullmatch(ENDLESS, "a" * 60 + "b")
    with cpu_timeout(0.01):
        pass
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    said = []
    thread = threading.Thread(target=lambda: said.append(_computed()))
    thread.start()
    thread.join()

    assert said == ["computed"]


def _computed():
    with cpu_timeout(0.01):
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
    return "computed"
