"""A kind of file that fails reports exactly the changes that it has made before."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import Job
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.resources import registry
from holdfast.resources.meta import Meta
from holdfast.resources.testing import FakeContext
from holdfast.states.data import Call
from holdfast.states.parse.marks import Document, Spot

Immutable = Callable[[Path], None]


@pytest.fixture
def immutable() -> Iterator[Immutable]:
    """Makes a file immutable (chattr +i) until the end of the test."""
    made: list[Path] = []

    def make(path: Path) -> None:
        if os.geteuid() or subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode:
            pytest.skip("needs root, and a file system with immutable files")
        made.append(path)

    yield make
    for path in made:
        subprocess.run(["chattr", "-i", path], check=True)


async def tried(ctx: FakeContext, kind: str, path: Path, **arguments: Any) -> Outcome:
    """Return the outcome of an attempt."""
    resource = registry.find(kind).declare(str(path), **arguments)
    call = Call(
        0,
        f"{kind}[it]",
        {"name": str(path), "__id__": "it"},
        Spot(Document("test.sls", "")),
        resource,
        Meta.model_validate({}),
        {},
    )
    return await attempt.run(Job(call, ctx, apply=True), lambda _: None)


async def test_an_owner_that_is_set_before_the_mode_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is reported as changed, the mode is not."""
    path = tmp_path / "file"
    path.write_text("x\n")
    path.chmod(0o600)

    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "chmod", refuse)
    outcome = await tried(FakeContext(tmp_path), "file.managed", path, contents="x", group="daemon", mode="0640")
    assert (outcome.result, outcome.changes) == (False, {"group": "daemon"})
    assert outcome.comment.endswith(f"; changed group of {path}")


async def test_content_that_is_in_place_when_the_flush_fails(tmp_path: Path) -> None:
    """The directory cannot be flushed after the file has been replaced."""

    class Broken(FakeContext):
        async def write_file(self, *args: Any, **options: Any) -> None:
            """Write the file, and fail."""
            await super().write_file(*args, **options)
            raise OSError(5, "Input/output error", str(tmp_path))

    path = tmp_path / "file"
    path.write_text("old\n")
    outcome = await tried(Broken(tmp_path), "file.managed", path, contents="new")
    assert (outcome.result, [*outcome.changes]) == (False, ["diff"])
    assert "+new" in outcome.diff


async def test_a_file_that_cannot_be_changed_at_all(tmp_path: Path, immutable: Immutable) -> None:
    """No change is reported."""
    path = tmp_path / "file"
    path.write_text("old\n")
    immutable(path)
    outcome = await tried(FakeContext(tmp_path), "file.managed", path, contents="new", mode="0600")
    assert (outcome.result, outcome.changes, outcome.diff) == (False, {}, "")
    assert path.read_text() == "old\n"


async def test_a_tree_of_which_one_entry_fails(tmp_path: Path) -> None:
    """The other entries are made and reported."""
    source, top = tmp_path / "source", tmp_path / "top"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(name)
    (top / "b").mkdir(parents=True)
    outcome = await tried(
        FakeContext(tmp_path, sources={f"file://{source}": source}), "file.recurse", top, source=f"file://{source}"
    )
    assert outcome.result is False
    assert [*outcome.changes] == [f"{top}/a", f"{top}/c"]
    assert outcome.comment.startswith(f"cannot manage {top}/b as a file: it is a directory")


async def test_a_directory_that_cannot_be_cleaned_whole(tmp_path: Path, immutable: Immutable) -> None:
    """The mode and the removed entries are reported; entries that stay are not."""
    top = tmp_path / "top"
    top.mkdir(mode=0o755)
    for name in "abc":
        (top / name).write_text(name)
    immutable(top / "b")
    outcome = await tried(FakeContext(tmp_path), "file.directory", top, clean=True, mode="0750")
    assert outcome.result is False
    gone = [name for name in "abc" if not (top / name).exists()]
    assert outcome.changes["mode"] == "0750"
    assert outcome.changes.get("removed", []) == [f"{top}/{name}" for name in gone]
    assert "b" not in gone


async def test_a_directory_that_cannot_be_removed_whole(tmp_path: Path, immutable: Immutable) -> None:
    """The number of removed entries is reported; nothing if no entry could be removed."""
    for names, gone in (("abcdefghijklmnopqrstuvwxyz", 26), ("", 0)):  # the order depends on the file system
        top = tmp_path / f"top{gone}"
        (top / "kept").mkdir(parents=True)
        for name in names:
            (top / name).write_text(name)
        (top / "kept" / "it").touch()
        immutable(top / "kept" / "it")
        outcome = await tried(FakeContext(tmp_path), "file.absent", top)
        assert outcome.result is False
        left = sum(1 for name in names if (top / name).exists())
        expected = {"removed": f"{gone - left} entries of {top}"} if gone - left else {}
        assert outcome.changes == expected
