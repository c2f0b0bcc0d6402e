"""Real faults of files: each error is one clear line, and leaves everything as it was."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import files
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.host import LocalHost
from holdfast.resources import paths, registry
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.kinds._source_hash import digest_of
from holdfast.resources.kinds.file import removal, trees
from holdfast.resources.kinds.file.base import UNDECLARED, Ownership

all(registry.kinds())  # imported now, because an ordinary user may not be able to read the modules


@pytest.fixture
async def host(tmp_path):
    """The real host."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path.parent / f"{tmp_path.name}.var", durable=False) as host:
        yield host


async def run(host: LocalHost, kind: str, name: object, *, apply: bool = True, **arguments):
    """Return (changed, context) of one run of one resource."""
    ctx = host.context(f"{kind}[{name}]")
    resource = registry.find(kind).declare(str(name), **arguments)
    return not await resource.check_apply(ctx, apply), ctx


@contextmanager
def somebody():
    """Become an ordinary user in a directory of root (or a read-only one) that everybody can enter."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o755)
    real = os.geteuid()
    if real == 0:
        os.seteuid(65534)
    else:
        top.chmod(0o555)
    try:
        yield top
    finally:
        os.seteuid(real)
        top.chmod(0o755)
        shutil.rmtree(top)


async def test_permission_denied(host):
    """The user may not write the directory."""
    with somebody() as top:
        with pytest.raises(Permanent) as caught:
            await run(host, "file.managed", top / "f", contents="x")
        assert str(caught.value) == f"cannot write {top}/f: permission denied"
        for kind, arguments in (("file.directory", {}), ("file.symlink", {"target": "t"}), ("file.touch", {})):
            with pytest.raises(Permanent, match="permission denied"):
                await run(host, kind, top / "f", **arguments)
        assert list(top.iterdir()) == []


async def test_not_ours_to_change(host):
    """Only the owner could set the mode."""
    with somebody() as top:
        name = top if os.geteuid() == 65534 else Path("/")
        with pytest.raises(Permanent, match=f"cannot change owner or mode of {name}: "):
            await run(host, "file.directory", name, mode="0700")


NAMESPACE = """
    import asyncio, sys
    from pathlib import Path
    from holdfast.agent.host.host import LocalHost
    from holdfast.resources import registry
    from holdfast.resources.errors import HoldfastError

    async def main(top):
        async with LocalHost(states=Path("/"), var_dir=Path("/nonexistent"), durable={durable}) as host:
            for kind, name, arguments in {calls}:
                try:
                    resource = registry.find(kind).declare(f"{{top}}/{{name}}", **arguments)
                    right = await resource.check_apply(host.context("x"), True)
                    print("right" if right else "changed")
                except HoldfastError as error:
                    print(f"{{type(error).__name__}}: {{error}}")
        print(sorted(path.name for path in Path(top).iterdir()))

    asyncio.run(main(sys.argv[1]))
"""


def in_namespace(
    top: Path, mount: str, calls: list[tuple[str, str, dict[str, object]]], *, durable: bool = False
) -> list[str]:
    """Return the results of calls in a process that has mounted something at `top`."""
    script = textwrap.dedent(NAMESPACE.format(calls=repr(calls), durable=durable))
    command = ["unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-", str(top)]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=DEADLINE)
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip("no user namespaces here")
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("durable", [False, True])
def test_disk_full(tmp_path, durable):
    """The error says so and is temporary, the old content stays, and no temporary file is left."""
    content = "x" * (1 << 20)
    calls = [("file.managed", "f", {"contents": "small"}), ("file.managed", "f", {"contents": content})]

    said = in_namespace(tmp_path, f"mount -t tmpfs -o size=64k none {tmp_path}", calls, durable=durable)

    assert said == ["changed", f"Temporary: cannot write {tmp_path}/f: no space is left on the file system", "['f']"]


def test_read_only_file_system(tmp_path):
    """Every kind reports a read-only file system. What is as declared already is no error."""
    (tmp_path / "f").write_text("x\n")
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    calls = [
        ("file.managed", "f", {"contents": "x"}),
        ("file.managed", "f", {"contents": "y"}),
        ("file.directory", "d", {}),
        ("file.symlink", "l", {"target": "t"}),
        ("file.absent", "f", {}),
    ]

    said = in_namespace(tmp_path, mount, calls)

    reason = "the file system is read-only"
    assert said == [
        "right",
        f"Permanent: cannot write {tmp_path}/f: {reason}",
        f"Permanent: cannot make directory {tmp_path}/d: {reason}",
        f"Permanent: cannot link {tmp_path}/l: {reason}",
        f"Permanent: cannot remove {tmp_path}/f: {reason}",
        "['f']",
    ]


def test_absent_never_crosses_a_mount(tmp_path):
    """A directory with a mount below is refused before anything is removed."""
    (tmp_path / "d" / "mnt").mkdir(parents=True)
    (tmp_path / "d" / "f").write_text("x")

    said = in_namespace(tmp_path, f"mount -t tmpfs none {tmp_path}/d/mnt", [("file.absent", "d", {})])

    assert said == [
        f"Permanent: cannot remove {tmp_path}/d: {tmp_path}/d/mnt is a mount point; unmount it first",
        "['d']",
    ]
    assert (tmp_path / "d" / "f").exists()


async def test_path_too_long(host, tmp_path):
    """The kernel refuses the name or the path."""
    for name in (tmp_path / ("n" * 256), Path(f"{tmp_path}/" + "d/" * 2100 + "f")):
        for kind, arguments in (("file.managed", {"contents": "x"}), ("file.directory", {}), ("file.absent", {})):
            with pytest.raises(Permanent, match="the path is too long"):
                await run(host, kind, name, **arguments)


@pytest.mark.parametrize("make", ["directory", "fifo", "socket", "device"])
async def test_not_a_file(host, tmp_path, make):
    """An entry in place of the file is named in the error, and neither opened nor removed."""
    target = tmp_path / "f"
    if make == "directory":
        target.mkdir()
    elif make == "fifo":
        os.mkfifo(target)
    elif make == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(target))
    else:
        target = Path("/dev/null")
    before = target.lstat()

    for kind, arguments in (
        ("file.managed", {"contents": "x"}),
        ("file.managed", {"mode": "0644"}),
        ("file.append", {"text": "x"}),
    ):
        with pytest.raises(Permanent, match=f": it is a .*{make}"):
            await run(host, kind, target, **arguments)

    after = target.lstat()
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


async def test_file_below_a_file(host, tmp_path):
    """A parent that is a file counts as missing."""
    (tmp_path / "f").write_text("x")
    with pytest.raises(HoldfastError, match="cannot"):
        await run(host, "file.managed", tmp_path / "f" / "g", contents="x")
    with pytest.raises(Permanent, match=f"cannot make directory {tmp_path}/f/d: not a directory"):
        await run(host, "file.managed", tmp_path / "f" / "d" / "g", contents="x", makedirs=True)


async def test_what_an_upstream_would_make_is_no_error_in_a_plan(host, tmp_path):
    """Without apply, another state may create a missing parent or owner, so the result is "would change"."""
    for kind, arguments in (
        ("file.managed", {"contents": "x"}),
        ("file.directory", {}),
        ("file.symlink", {"target": "t"}),
    ):
        changed, ctx = await run(
            host, kind, tmp_path / "no" / "f", apply=False, user="nobody-yet", group="nobody-yet", **arguments
        )
        assert changed
        assert ctx.report.changes
    (tmp_path / "f").write_text("x\n")
    changed, ctx = await run(host, "file.managed", tmp_path / "f", apply=False, contents="x", user="nobody-yet")
    assert (changed, ctx.report.changes) == (True, {"user": "nobody-yet"})


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, Path.mkdir])
async def test_a_link_swapped_in_is_not_followed(tmp_path, make):
    """A link that replaces an entry of a tree during its repair is not followed."""
    outside, inside = tmp_path / "outside", tmp_path / "f"
    outside.write_text("x")
    outside.chmod(0o600)
    make(inside)
    seen = inside.lstat()
    inside.rename(tmp_path / "away")
    inside.symlink_to(outside)

    with pytest.raises(OSError, match="symbolic links"):
        Ownership(None, None, UNDECLARED, UNDECLARED, 0o666).put(paths.at(str(inside)), seen)
    assert outside.stat().st_mode & 0o777 == 0o600


async def test_a_link_swapped_in_for_the_directory_is_not_followed(host, tmp_path, monkeypatch):
    """If a directory becomes a link between check and change, the target of the link keeps its mode."""
    outside, inside = tmp_path / "outside", tmp_path / "d"
    outside.mkdir(mode=0o700)
    inside.mkdir(mode=0o700)

    def swap(*_):
        inside.rename(tmp_path / "away")
        inside.symlink_to(outside)

    monkeypatch.setattr(Ownership, "demand", swap)
    with pytest.raises(Permanent, match="symbolic links"):
        await run(host, "file.directory", inside, mode="0777")
    assert outside.stat().st_mode & 0o777 == 0o700


async def test_cleaning_never_leaves_by_a_link_swapped_in(host, tmp_path, monkeypatch):
    """If a directory becomes a link before a stray file in it is removed, the target of the link stays."""
    outside, inside = tmp_path / "outside", tmp_path / "d"
    for directory in (outside, inside / "sub"):
        directory.mkdir(parents=True)
        (directory / "stray").touch()
    surplus = trees.surplus

    def swap(*arguments):
        found = surplus(*arguments)
        (inside / "sub").rename(tmp_path / "away")
        (inside / "sub").symlink_to(outside)
        return found

    monkeypatch.setattr(trees, "surplus", swap)
    host.update(managed=lambda: [str(inside / "sub" / "kept")])
    with pytest.raises(Permanent, match=r"cannot remove .*stray: not a directory"):
        await run(host, "file.directory", inside, clean=True)
    assert (outside / "stray").exists()


@pytest.mark.parametrize(("size", "threads"), [(10, 0), (2 << 20, 1)])
async def test_hashes_of_large_files_leave_the_loop_free(host, monkeypatch, size, threads):
    """Hashing takes as long as reading, so large files are hashed in a thread, too."""
    calls = []

    async def blocking(call):
        calls.append(call)
        return call()

    monkeypatch.setattr(host, "blocking", blocking)
    assert len(await digest_of(host.context("x"), "md5", b"x" * size)) == 32
    assert len(calls) == threads


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_a_copy_keeps_the_owner_of_what_it_replaces(host, tmp_path):
    """A copy keeps the owner as with `cp`; a new copy belongs to the agent."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_text("new")
    copy.write_text("old")
    os.chown(copy, 1234, 1235)

    await run(host, "file.copy", copy, source=str(source), force=True)

    assert (copy.stat().st_uid, copy.stat().st_gid, copy.read_text()) == (1234, 1235, "new")


async def test_a_link_with_a_long_name(host, tmp_path):
    """The name of the temporary file is cut to the limit in bytes, not in characters."""
    await run(host, "file.symlink", tmp_path / ("ü" * 127), target="/x")
    assert [str(path.readlink()) for path in tmp_path.iterdir()] == ["/x"]


async def test_a_link_on_its_way_is_not_swept_up(host, tmp_path, monkeypatch):
    """The removal of leftovers from a directory keeps the temporary file of a link that is being created there."""
    rename = os.rename

    def sweep_first(*arguments, **options):
        files._swept.clear()
        files.sweep(paths.directory(str(tmp_path)))
        rename(*arguments, **options)

    monkeypatch.setattr(os, "rename", sweep_first)
    await run(host, "file.symlink", tmp_path / "l", target="/x")
    assert (tmp_path / "l").is_symlink()


async def test_large_files_leave_the_loop_free(host, tmp_path):
    """Content over a mebibyte is read, compared and written in a thread."""
    threads = []

    class Told(Blocking):
        """Records the thread of each call."""

        async def __call__(self, call, /, *args):
            return await super().__call__(lambda: (threads.append(threading.current_thread().name), call(*args))[1])

    host.blocking = Told(alone=lambda: True)
    await run(host, "file.managed", tmp_path / "f", contents="x" * (2 << 20))
    assert {*threads} == {"holdfast-blocking"}
    threads.clear()
    changed, _ = await run(host, "file.managed", tmp_path / "f", contents="x" * (2 << 20))
    assert (changed, {*threads}) == (False, {"holdfast-blocking"})


async def test_undeclared_owner_is_kept(host, tmp_path):
    """Replacing the content leaves owner and group as they were."""
    target = tmp_path / "f"
    target.write_text("old")
    if os.geteuid() == 0:
        os.chown(target, 1, 2)
    before = target.stat()

    await run(host, "file.managed", target, contents="new")

    after = target.stat()
    assert (before.st_uid, before.st_gid, before.st_mode) == (after.st_uid, after.st_gid, after.st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_owner_by_name_and_number(host, tmp_path):
    """Names and numbers are equivalent. Of a link, the owner of the link itself is changed."""
    await run(host, "file.managed", tmp_path / "f", contents="x", user="daemon", group=2)
    changed, _ = await run(host, "file.managed", tmp_path / "f", contents="x", user=1, group="bin")
    assert not changed
    await run(host, "file.symlink", tmp_path / "l", target="f", user="games")
    assert (tmp_path / "l").lstat().st_uid == 5
    assert (tmp_path / "f").stat().st_uid == 1


async def test_backup(host, tmp_path):
    """The replaced file is kept, and only the agent can read it."""
    (tmp_path / "f").write_text("precious")
    _, ctx = await run(host, "file.managed", tmp_path / "f", contents="new", backup="minion")

    (copy,) = ctx.var_dir.iterdir()
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("precious", 0o600)


def test_what_is_gone_already_is_removed(tmp_path):
    """An entry that disappears while a directory is cleaned is not an error."""
    removal.remove(paths.at(str(tmp_path / "gone")))


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_declared_owner_and_mode_beat_those_of_the_source(host, tmp_path):
    """Uid 0 and mode 0000 count as declared, too. What is not declared is taken from the source."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_text("x")
    source.chmod(0o644)
    os.chown(source, 1234, 1235)

    await run(host, "file.copy", copy, source=str(source), preserve=True, user="root", mode="0000")

    seen = copy.stat()
    assert (seen.st_uid, seen.st_gid, seen.st_mode & 0o7777) == (0, 1235, 0)


@pytest.mark.parametrize(
    ("step", "check", "touched"),
    [("rename", (), True), ("rename", ("true",), True), ("rename", ("false",), False), ("create", (), False)],
)
async def test_a_change_counts_from_when_it_may_have_happened(host, tmp_path, monkeypatch, *, step, check, touched):
    """A run that fails at its end may have replaced the file, so listeners must be notified.

    With a full disk or a failed check, the file was not replaced.
    """

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(paths.Place, step, fail)
    ctx = host.context("x")
    resource = registry.find("file.managed").declare(str(tmp_path / "f"), contents="x", check_cmd=check)
    with pytest.raises(HoldfastError):
        await resource.check_apply(ctx, True)

    assert ctx.report.touched is touched
