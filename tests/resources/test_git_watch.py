"""An engine repairs a clone at the event of its damage, and polls the remote repository."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from command_bench import Commands
from deadline import DEADLINE
from engine_bench import state
from git_remote import GitRemote, git


@pytest.fixture
def remote(tmp_path: Path) -> GitRemote:
    """A remote repository with one commit."""
    remote = GitRemote(tmp_path / "remote")
    remote.commit({"index.html": "one\n"})
    return remote


def site(remote: GitRemote, tmp: Path, interval: float) -> Any:
    """Declare a clone of the repository."""
    arguments = {"name": remote.url, "target": str(tmp / "site"), "rev": "main", "branch": "main"}
    return state("site", "git.latest", **arguments, force_reset=True, interval=interval)


async def reached(bench: Commands, path: Path, text: str) -> None:
    """Wait until a file has this content."""
    async with asyncio.timeout(DEADLINE):
        await bench.until(lambda _: path.is_file() and path.read_text() == text)


async def test_damage_is_repaired_at_its_event_without_the_remote(remote, tmp_path):
    """The remote repository is not needed for the repair, so it may be down."""
    bench = Commands(tmp_path)
    page = tmp_path / "site/index.html"
    async with bench.host, bench.running(site(remote, tmp_path, 1000)):
        assert page.read_text() == "one\n"
        remote.path.rename(tmp_path / "gone")
        for damage in (
            lambda: page.write_text("mine\n"),
            page.unlink,
            (tmp_path / "site/.git/index").unlink,
            lambda: git(page.parent, "checkout", "-q", "--detach"),
            (tmp_path / "site/.git/refs/heads/main").unlink,
        ):
            bench.forget()
            damage()
            async with asyncio.timeout(DEADLINE):
                await bench.until(lambda _: any(outcome.changed for outcome in bench.outcomes("site")))
            assert page.read_text() == "one\n"
            assert git(page.parent, "status", "--porcelain", "--branch").startswith("## main...origin/main")
        assert git(page.parent, "rev-parse", "HEAD") == git(tmp_path / "gone", "rev-parse", "HEAD")


async def test_a_new_commit_is_found_by_the_poll(remote, tmp_path):
    """No event reports a new commit, so the agent polls.

    While the remote repository is away, the clone stays as it is.
    """
    bench = Commands(tmp_path)
    page = tmp_path / "site/index.html"
    async with bench.host, bench.running(site(remote, tmp_path, 0.05)):
        remote.commit({"index.html": "two\n"})
        await reached(bench, page, "two\n")
        remote.path.rename(tmp_path / "gone")
        page.write_text("mine\n")
        await reached(bench, page, "two\n")
        (tmp_path / "gone").rename(remote.path)
        remote.commit({"index.html": "three\n"})
        await reached(bench, page, "three\n")
