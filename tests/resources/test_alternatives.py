"""Files of groups of alternatives, and the kinds with the real update-alternatives in directories of their own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.context import Completed
from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds import _alternatives, alternatives
from holdfast.resources.kinds._alternatives import parse
from holdfast.resources.testing import FakeContext

DEBIAN = """\
manual
/usr/bin/awk
awk.1.gz
/usr/share/man/man1/awk.1.gz
nawk
/usr/bin/nawk

/usr/bin/gawk
10
/usr/share/man/man1/gawk.1.gz

/usr/bin/mawk
5
/usr/share/man/man1/mawk.1.gz
/usr/bin/mawk

"""
RED_HAT = """\
auto
/usr/sbin/sendmail
mta-mailq
/usr/bin/mailq

/usr/sbin/sendmail.postfix
@mta@60 postfix
/usr/bin/mailq.postfix
"""


def test_the_file_of_debian():
    """An alternative may lack a slave; the best one has the highest priority."""
    group = parse(DEBIAN)
    assert (group.mode, group.link, group.best) == ("manual", "/usr/bin/awk", "/usr/bin/gawk")
    assert group.slaves_of("/usr/bin/gawk") == [
        ("/usr/share/man/man1/awk.1.gz", "awk.1.gz", "/usr/share/man/man1/gawk.1.gz")
    ]
    assert [name for _, name, _ in group.slaves_of("/usr/bin/mawk")] == ["awk.1.gz", "nawk"]
    assert group.slaves_of("/no/such/path") == []


def test_the_file_of_red_hat():
    """A priority has a family before it and a service after it."""
    group = parse(RED_HAT)
    assert group.alternatives == {"/usr/sbin/sendmail.postfix": (60, ("/usr/bin/mailq.postfix",))}


@given(st.text(max_size=200))
def test_no_file_crashes_the_parser(text):
    """A file is read, or `ValueError` says what is wrong."""
    for each in (text, f"auto\n/usr/bin/x\n\n{text}", DEBIAN[: len(text)]):
        try:
            group = parse(each)
        except ValueError as error:
            told = str(error)
            assert told
        else:
            assert group.mode in ("auto", "manual")


class Real(FakeContext):
    """A context that runs the real tool, with directories below the test's own."""

    async def run(self, *argv: str, check: bool = True, **_: Any) -> Completed:
        """Run the tool."""
        root = self.var_dir
        own = ("--altdir", f"{root}/chosen", "--admindir", f"{root}/admin", "--log", f"{root}/log")
        child = await asyncio.create_subprocess_exec(
            argv[0], *own, *argv[1:], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await child.communicate()
        self.calls.append(argv[1])
        return Completed(argv=argv, pid=1, retcode=child.returncode or 0, stdout=out.decode(), stderr=err.decode())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with two programs, and let the kinds use the directories of alternatives there."""
    if shutil.which("update-alternatives") is None:
        pytest.skip("update-alternatives not found: it is part of dpkg")
    for name in ("chosen", "admin", "bin"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
    monkeypatch.setattr(alternatives, "ADMIN", (str(tmp_path / "admin"),))
    monkeypatch.setattr(alternatives, "CHOSEN", str(tmp_path / "chosen"))
    monkeypatch.setattr(_alternatives, "CHOSEN", str(tmp_path / "chosen"))
    return tmp_path


async def do(world: Path, kind: str, apply: bool = True, **given: Any) -> tuple[bool, FakeContext]:
    """Run a state of the group `tool`; return whether everything was as declared, and the context."""
    cls = registry.find(f"alternatives.{kind}")
    assert cls is not None
    ctx = Real(world)
    return await cls.declare("tool", **given).check_apply(ctx, apply), ctx


async def test_from_nothing_to_nothing(world):
    """Two alternatives are added, chosen, set to automatic mode, and removed; the reports are those of Salt."""
    link, one, two = str(world / "bin/tool"), str(world / "bin/one"), str(world / "bin/two")
    right, ctx = await do(world, "install", apply=False, link=link, path=one, priority=10)
    assert (right, ctx.calls) == (False, [])
    right, ctx = await do(world, "install", link=link, path=one, priority=10)
    assert ctx.report.changes == {"name": "tool", "link": link, "path": one, "priority": 10}
    assert Path(link).resolve() == Path(one)
    assert (await do(world, "install", link=link, path=one, priority=10))[0]
    await do(world, "install", link=link, path=two, priority=5)
    _, ctx = await do(world, "set", path=two)
    assert (ctx.report.changes, ctx.report.comment) == ({"path": two}, f"set tool to {two}")
    assert (await do(world, "set", path=two))[0]
    assert (await do(world, "install", link=link, path=one, priority=10))[0], "a choice by hand is no damage"
    _, ctx = await do(world, "auto")
    assert Path(link).resolve() == Path(one)
    assert (await do(world, "auto"))[0]
    _, ctx = await do(world, "remove", path=one)
    assert (ctx.report.changes, Path(link).resolve()) == ({"path": two}, Path(two))
    _, ctx = await do(world, "remove", path=two)
    assert ctx.report.changes == {"removed": two}
    assert not Path(link).is_symlink()
    assert (await do(world, "remove", path=two))[0]


@pytest.mark.parametrize("damage", ["unlink bin/tool", "unlink chosen/tool", "point chosen/tool", "unlink admin/tool"])
async def test_damaged_links_are_restored(world, damage):
    """The common link, the link to the chosen alternative, and the file of the group are repaired."""
    link, one = str(world / "bin/tool"), str(world / "bin/one")
    await do(world, "install", link=link, path=one, priority=10)
    verb, _, name = damage.partition(" ")
    (world / name).unlink()
    if verb == "point":
        (world / name).symlink_to("/nowhere")
    assert not (await do(world, "install", link=link, path=one, priority=10))[0]
    assert Path(link).resolve() == Path(one)


async def test_a_removed_alternative_that_the_link_still_has_is_not_chosen(world):
    """An installation at the same time can leave the link alone, because the tool has no lock."""
    link, one, two = str(world / "bin/tool"), str(world / "bin/one"), str(world / "bin/two")
    await do(world, "install", link=link, path=one, priority=10)
    (world / "chosen/tool").unlink()
    (world / "chosen/tool").symlink_to(two)

    right, ctx = await do(world, "remove", path=two)

    assert (right, ctx.report.changes, Path(link).resolve()) == (False, {"path": one}, Path(one))
    assert (await do(world, "remove", path=two))[0]


async def test_a_new_priority_keeps_the_slaves(world):
    """Without an option, the tool would drop the slaves."""
    link, one = str(world / "bin/tool"), str(world / "bin/one")
    slave = ("--slave", str(world / "bin/tool.1"), "tool.1", str(world / "bin/two"))
    await Real(world).run("update-alternatives", "--install", link, "tool", one, "5", *slave)
    assert not (await do(world, "install", link=link, path=one, priority=20))[0]
    group = parse((world / "admin/tool").read_text())
    assert group.alternatives == {one: (20, (str(world / "bin/two"),))}


async def test_what_was_there_before(world):
    """Each state is undone by its inverse."""
    link, one, two = str(world / "bin/tool"), str(world / "bin/one"), str(world / "bin/two")
    find, ctx = registry.find, Real(world)
    install = find("alternatives.install").declare("tool", link=link, path=two, priority=1)
    assert await install.inverse(ctx) == ("alternatives.remove", {"name": "tool", "path": two}, "")
    choose = find("alternatives.set").declare("tool", path=two)
    assert await choose.inverse(ctx) is None
    await do(world, "install", link=link, path=one, priority=10)
    await do(world, "install", link=link, path=two, priority=5)
    assert await choose.inverse(ctx) == ("alternatives.auto", {"name": "tool"}, "")
    assert (await install.inverse(ctx)).arguments["priority"] == 5
    await do(world, "set", path=two)
    auto, remove = find("alternatives.auto").declare("tool"), find("alternatives.remove").declare("tool", path=two)
    assert await auto.inverse(ctx) == ("alternatives.set", {"name": "tool", "path": two}, "")
    assert (await remove.inverse(ctx)).arguments == {"name": "tool", "path": two, "link": link, "priority": 5}


async def test_errors_say_what_is_there(world):
    """A path that is not an alternative, a missing path, a damaged file, and a file in place of a link are named."""
    link, one = str(world / "bin/tool"), str(world / "bin/one")
    with pytest.raises(HoldfastError, match="/no/such doesn't exist"):
        await do(world, "install", link=link, path="/no/such", priority=1)
    await do(world, "install", link=link, path=one, priority=10)
    with pytest.raises(
        HoldfastError, match=f"cannot choose /no/such for tool: it is not an alternative; available: {one}"
    ):
        await do(world, "set", path="/no/such")
    Path(link).unlink()
    Path(link).write_text("a program")
    kept = (world / "admin/tool").stat().st_mtime_ns
    with pytest.raises(HoldfastError, match=f"{link} is a file, and the tool replaces only links; move it away, or"):
        await do(world, "install", link=link, path=one, priority=10)
    assert (world / "admin/tool").stat().st_mtime_ns == kept  # a write would be an event
    (world / "admin/tool").write_text("auto\n/x\n\n/y\n")
    with pytest.raises(HoldfastError, match="the alternative /y is incomplete"):
        await do(world, "auto")


@pytest.mark.parametrize(("name", "path"), [("-x", "/x"), ("a/b", "/x"), ("a b", "/x"), ("x", "/x\ny"), ("x", "x")])
def test_names_that_the_tool_would_misread(name, path):
    """Such names are refused before anything runs."""
    with pytest.raises(ValidationError):
        registry.find("alternatives.set").declare(name, path=path)
