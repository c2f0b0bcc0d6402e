"""Paths of `creates` in directories of users, which may contain links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine_bench import Bench, state
from fake_machine import Machine

UID = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_an_unsafe_link_fails_only_its_own_run(bench: Bench, machine: Machine, tmp_path: Path) -> None:
    """A user's link to a directory of root counts neither as existing nor as missing.

    A link to the user's own directory is followed.
    """
    users, roots = tmp_path / "users", tmp_path / "roots"
    for directory, owner in ((users, UID), (roots, 0), (users / "own", UID)):
        directory.mkdir()
        os.chown(directory, owner, -1)
    for name, target in (("bad", roots), ("good", "own")):
        (users / name).symlink_to(target)
        os.chown(users / name, UID, -1, follow_symlinks=False)

    async with bench.running(
        state("a", meta={"creates": [str(users / "bad")]}),
        state("b", meta={"creates": [str(users / "good")]}),
        state("c", meta={"creates": [str(users / "none")]}),
        state("d", meta={"creates": [str(roots)]}),
        watch=False,
    ) as engine:
        rows = engine.status()
        assert [row["state"] for row in rows] == ["failed", "skipped", "ok", "skipped"]
        assert machine.settings == {"c": "right"}
        assert f"cannot follow {users / 'bad'}, which belongs to user {UID} and points to {roots}" in str(rows[0])
