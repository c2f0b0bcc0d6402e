"""Attacks on a directory during a recursive copy: nothing outside of it is reached."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.agent.host import files
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.testing import FakeContext


class Meddled(FakeContext):
    """A context in which something happens right before a source is read."""

    meddle: Callable[[], None]

    async def source(self, url: str, *, trusted: bool = False) -> bytes:
        """Return the content, after the test has acted."""
        self.meddle()
        return await super().source(url, trusted=trusted)


def world(tmp_path: Path) -> tuple[Path, Path]:
    """Return a directory that another user may write, and one that only root may write."""
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "f").write_text("new")
    (tmp_path / "target" / "sub").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    return tmp_path / "target", tmp_path / "outside"


async def test_a_directory_swapped_for_a_link_leads_nowhere(tmp_path):
    """The file is written into the checked directory, not to the target of the link that has replaced it."""
    target, outside = world(tmp_path)
    (outside / "f").write_text("secret")
    ctx = Meddled(tmp_path / "var")

    def swap() -> None:
        (target / "sub").rename(target / "moved")
        (target / "sub").symlink_to(outside)

    ctx.meddle = swap
    await registry.find("file.recurse").declare(str(target), source=str(tmp_path / "source")).check_apply(ctx, True)

    assert (outside / "f").read_text() == "secret"
    assert (target / "moved" / "f").read_text() == "new"
    assert "secret" not in ctx.report.diff


async def test_a_file_swapped_for_a_link_is_replaced(tmp_path):
    """The target of the link is neither read nor written."""
    target, outside = world(tmp_path)
    (outside / "f").write_text("secret")
    (target / "sub" / "f").write_text("old")
    ctx = Meddled(tmp_path / "var")

    def swap() -> None:
        (target / "sub" / "f").unlink()
        (target / "sub" / "f").symlink_to(outside / "f")

    ctx.meddle = swap
    with pytest.raises(Permanent, match=f"cannot put in place {target}/sub/f: too many symbolic links"):
        await registry.find("file.recurse").declare(str(target), source=str(tmp_path / "source")).check_apply(ctx, True)
    assert (outside / "f").read_text() == "secret"

    ctx.meddle = lambda: None
    await registry.find("file.recurse").declare(str(target), source=str(tmp_path / "source")).check_apply(ctx, True)

    assert ((outside / "f").read_text(), (target / "sub" / "f").read_text()) == ("secret", "new")


async def test_new_files_are_closed_until_they_are_done(tmp_path, monkeypatch):
    """Other users can never read a file of mode 0600, or enter a directory of mode 0700."""
    target = tmp_path / "target"
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "f").write_text("x")
    modes = []
    write, mkdir = os.write, os.mkdir

    def watching(descriptor: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, data)

    def making(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(path, mode, dir_fd=dir_fd)
        modes.append(stat.S_IMODE(os.lstat(path, dir_fd=dir_fd).st_mode))

    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        monkeypatch.setattr(files.os, "write", watching)
        monkeypatch.setattr(os, "mkdir", making)
        resource = registry.find("file.recurse").declare(
            str(target), source=str(tmp_path / "source"), file_mode="0600", dir_mode="0700"
        )
        await resource.check_apply(host.context("x"), True)

    assert set(modes) == {0o700, 0o600}


async def test_leftovers_are_swept_from_each_directory(tmp_path):
    """Temporary files of a killed agent are removed from each directory that is written."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        for name in ("a", "b"):
            for top in ("source", "target"):
                (tmp_path / top / name).mkdir(parents=True)
            (tmp_path / "source" / name / "f").write_text("x")
            (tmp_path / "target" / name / ".f.holdfast-ffffff-0").write_text("half")

        await (
            registry.find("file.recurse")
            .declare(str(tmp_path / "target"), source=str(tmp_path / "source"))
            .check_apply(host.context("x"), True)
        )

    assert sorted(path.name for path in (tmp_path / "target").rglob("*")) == ["a", "b", "f", "f"]


async def test_a_tree_of_the_states_is_trusted_like_them(tmp_path):
    """A file of the states that other users could write is not copied."""
    (tmp_path / "states" / "t").mkdir(parents=True)
    (tmp_path / "states" / "t" / "f").write_text("x")
    (tmp_path / "states" / "t" / "f").chmod(0o666)
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        resource = registry.find("file.recurse").declare(str(tmp_path / "target"), source="salt://t")

        with pytest.raises(Permanent, match="cannot read salt://t/f: "):
            await resource.check_apply(host.context("x"), True)

        (tmp_path / "states" / "t" / "f").chmod(0o644)
        assert not await resource.check_apply(host.context("x"), True)
        assert await resource.check_apply(host.context("x"), True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Field required"),
        ({"source": []}, "source is missing"),
        ({"source": "https://x/y"}, "is not a directory that can be copied"),
        ({"source": "here"}, "is not a directory that can be copied"),
        ({"source": "salt://x", "exclude_pat": "E@["}, "is not a regular expression"),
        ({"source": "salt://x", "maxdepth": -1}, "greater than or equal to 0"),
    ],
)
def test_declarations_that_cannot_be_meant(arguments, told):
    """Such declarations are refused before anything runs."""
    with pytest.raises(ValidationError) as caught:
        registry.find("file.recurse").declare("/d", **arguments)

    assert told in str(caught.value)
