"""A plan shows mode and owner of what it would create; the apply that follows creates exactly that."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry

TELLING = {
    "append": [{"text": "x"}],
    "blockreplace": [],
    "comment": [],
    "copy": [
        {"source": "{tmp}/given"},
        {"source": "{tmp}/given", "mode": "0640"},
        {"source": "{tmp}/given", "preserve": True},
    ],
    "directory": [{}, {"mode": "0700"}],
    "keyvalue": [{"key": "a", "value": "b", "create_if_missing": True, "append_if_not_found": True}],
    "line": [{"mode": "insert", "content": "x", "create": True, "file_mode": "0600", "location": "end"}],
    "managed": [{"contents": "x"}, {"contents": "x", "mode": "0600"}, {"source": "{tmp}/given", "mode": "keep"}],
    "prepend": [{"text": "x"}],
    "recurse": [{"source": "salt://tree"}, {"source": "salt://tree", "dir_mode": "0700", "file_mode": "0600"}],
    "replace": [],
    "serialize": [{"dataset": {"a": 1}}, {"dataset": {"a": 1}, "mode": "0600"}],
    "symlink": [{"target": "/nowhere"}, {"target": "/nowhere", "force": True}],
    "touch": [{}],
    "uncomment": [],
}
"""Functions of `file` that create something at their path -> arguments for this. Other functions never do."""
SILENT = {"absent", "accumulated", "exists", "missing", "pruned", "rename"}
"""Functions that create nothing."""
OWNED = {"copy", "directory", "managed", "recurse", "serialize", "symlink"}
"""Functions with an argument for the owner."""


@pytest.fixture
async def host(tmp_path):
    """The real host, with a tree of states."""
    tree = tmp_path / "states" / "tree" / "inner"
    tree.mkdir(parents=True)
    (tree / "file").write_text("x")
    (tmp_path / "given").write_text("x\n")
    (tmp_path / "given").chmod(0o604)
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host


def told(path: Path, user: str | None) -> str:
    """Return mode and owner of an entry in the words of a plan."""
    seen = path.lstat()
    names = [user or ("root" if number == 0 else str(number)) for number in (seen.st_uid, seen.st_gid)]
    mode = "" if stat.S_ISLNK(seen.st_mode) else f"mode {stat.S_IMODE(seen.st_mode):04o}, "
    return f"{mode}owner {names[0]}:{names[1]}"


CASES = [
    (function, arguments, user)
    for function, several in TELLING.items()
    for arguments in several
    for user in (None, "daemon")
    if user is None or function in OWNED
]


@pytest.mark.parametrize(("function", "arguments", "user"), CASES)
async def test_a_plan_tells_mode_and_owner_of_what_it_would_make(function, arguments, user, host, tmp_path):
    """For each kind of file, the plan shows the mode and owner that the created entry has."""
    if user and os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    path = tmp_path / "new"
    given = {key: value.format(tmp=tmp_path) if isinstance(value, str) else value for key, value in arguments.items()}
    owner = {"user": user, "group": user} if user else {}
    resource = registry.find(f"file.{function}").declare(str(path), **given, **owner)

    plan = host.context(f"file.{function}[{path}]")
    assert not await resource.check_apply(plan, False)
    assert not path.exists()
    assert not await resource.check_apply(host.context(f"file.{function}[{path}]"), True)

    if function == "recurse":
        file = told(path / "inner" / "file", user)
        assert plan.report.comment.endswith(
            f"; new directories with {told(path, user).partition(',')[0]}, files with {file}"
        )
    else:
        assert plan.report.comment.endswith(f" with {told(path, user)}")


async def test_a_plan_of_a_tree_tells_what_of_it_is_new(host, tmp_path):
    """Below an existing directory, the plan shows only new entries."""
    (tmp_path / "new" / "inner").mkdir(parents=True, mode=0o755)
    (tmp_path / "new").chmod(0o755)
    resource = registry.find("file.recurse").declare(str(tmp_path / "new"), source="salt://tree", file_mode="keep")

    plan = host.context("file.recurse[new]")
    assert not await resource.check_apply(plan, False)
    assert "; new files with the modes of their sources, owner " in plan.report.comment
    assert "directories" not in plan.report.comment


def test_every_kind_of_file_is_among_them():
    """A new kind must be added to the tables above."""
    assert {*TELLING, *SILENT} == {*registry.functions("file")}
