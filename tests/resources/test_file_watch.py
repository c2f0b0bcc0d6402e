"""Kinds of files receive events of changes, with the real watcher."""

from __future__ import annotations

import asyncio

import pytest

from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.sweep import Sweep
from holdfast.resources import registry


@pytest.fixture
async def host(tmp_path, monkeypatch):
    """The real host. It does not compare files by itself, so that only events find changes."""
    monkeypatch.setattr(Sweep, "begin", lambda _: None)
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        yield host
        assert host.paths.kernel_watches == 0


async def test_drift_is_heard_and_repaired(host, tmp_path):
    """Damage of any kind to a managed file is an event, and one run repairs it."""
    target = tmp_path / "f"
    resource = registry.find("file.managed").declare(str(target), contents="right", mode="0644")
    ctx = host.context("file.managed[f]")
    watch = resource.watch(ctx)
    await anext(watch)
    await resource.check_apply(ctx, True)

    for damage in (
        lambda: target.write_text("bad"),
        target.unlink,
        lambda: target.chmod(0o600),
        lambda: target.rename(tmp_path / "g"),
    ):
        async with asyncio.timeout(DEADLINE):
            while not await resource.check_apply(ctx, True):
                await anext(watch)
            damage()
            while await resource.check_apply(ctx, False):
                await anext(watch)
            assert not await resource.check_apply(ctx, True)
        assert (target.read_text(), target.stat().st_mode & 0o777) == ("right\n", 0o644)
    await watch.aclose()


async def test_a_changed_source_is_heard(host, tmp_path):
    """The source of a file is watched, too, unless it is in the states directory, which is watched as a whole."""
    for source in (f"{tmp_path}/part", f"file://{tmp_path}/part2"):
        path = tmp_path / source.rpartition("/")[2]
        path.write_text("one")
        watch = registry.find("file.managed").declare(str(tmp_path / "f"), source=source).watch(host.context("x"))
        await anext(watch)

        path.write_text("two")

        await asyncio.wait_for(anext(watch), DEADLINE)
        await watch.aclose()


@pytest.mark.parametrize(("kind", "arguments"), [("file.copy", {"force": True}), ("file.rename", {})])
async def test_the_source_of_a_copy_or_move_is_heard(host, tmp_path, kind, arguments):
    """A copy is kept equal to its source; a file that is to be moved may appear later."""
    source = tmp_path / "from" / "source"
    source.parent.mkdir()
    watch = registry.find(kind).declare(str(tmp_path / "f"), source=str(source), **arguments).watch(host.context("x"))
    await anext(watch)

    source.write_text("new")

    await asyncio.wait_for(anext(watch), DEADLINE)
    await watch.aclose()


async def test_strays_are_heard_where_they_are_cleaned(host, tmp_path):
    """A directory that is kept clean receives events of everything below it; another one does not."""
    (tmp_path / "d" / "sub").mkdir(parents=True)
    clean = registry.find("file.directory").declare(str(tmp_path / "d"), clean=True).watch(host.context("x"))
    plain = registry.find("file.directory").declare(str(tmp_path / "d")).watch(host.context("y"))
    await anext(clean)
    await anext(plain)
    waiting = asyncio.ensure_future(anext(plain))

    (tmp_path / "d" / "sub" / "stray").write_text("x")

    await asyncio.wait_for(anext(clean), DEADLINE)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await clean.aclose()
    await plain.aclose()


@pytest.mark.parametrize("kind", ["file.append", "file.blockreplace"])
async def test_the_source_of_a_part_is_heard(host, tmp_path, kind):
    """The sources of edits are watched, like the file itself."""
    for name in ("f", "part", "other"):
        (tmp_path / name).write_text("one")
    watch = (
        registry.find(kind)
        .declare(str(tmp_path / "f"), sources=[str(tmp_path / "part"), f"file://{tmp_path}/other"])
        .watch(host.context("x"))
    )
    await anext(watch)

    for name in ("f", "part", "other"):
        (tmp_path / name).write_text("two")
        await asyncio.wait_for(anext(watch), DEADLINE)
    await watch.aclose()


async def test_drift_of_a_tree_is_heard_and_repaired(host, tmp_path):
    """Damage anywhere in a copied directory, and changes of its source, are events.

    One run repairs each of them.
    """
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "f").write_text("right")
    resource = registry.find("file.recurse").declare(str(target), source=str(source), clean=True, file_mode="0644")
    ctx = host.context("file.recurse[target]")
    watch = resource.watch(ctx)
    await anext(watch)
    await resource.check_apply(ctx, True)
    file = target / "sub" / "f"

    for damage in (
        lambda: file.write_text("bad"),
        file.unlink,
        lambda: file.chmod(0o600),
        (target / "stray").mkdir,
        lambda: (target / "sub").rename(tmp_path / "away"),
        lambda: target.rename(tmp_path / "gone"),
        lambda: (source / "sub" / "new").write_text("right"),
        (source / "sub" / "new").unlink,
    ):
        async with asyncio.timeout(DEADLINE):
            while not await resource.check_apply(ctx, True):
                await anext(watch)
            damage()
            while await resource.check_apply(ctx, False):
                await anext(watch)
            assert not await resource.check_apply(ctx, True)
        assert {str(path.relative_to(target)) for path in target.rglob("*")} == {
            str(path.relative_to(source)) for path in source.rglob("*")
        }
        assert (file.read_text(), file.stat().st_mode & 0o777) == ("right", 0o644)
    await watch.aclose()
