"""Files put in place whole: nothing half-written, nothing left over, whatever happens on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.agent.host import files
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.files import Replacement, replace
from holdfast.resources import paths


async def put(
    path: Path,
    data: bytes = b"new",
    *,
    mode: int = 0o640,
    durable: bool = False,
    check=None,
    uid: int = -1,
    gid: int = -1,
):
    """Put a file in place."""
    await replace(Replacement(str(path), data, mode, uid, gid, durable), Blocking(), check)


def leftovers(directory: Path) -> list[str]:
    """Temporaries in a directory."""
    return [path.name for path in directory.iterdir() if ".holdfast-" in path.name]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("size", [0, 3, 3 << 20])
async def test_content_and_mode(tmp_path, durable, size):
    """Small and large, durable or not: the content and the exact mode, whatever the umask."""
    target = tmp_path / "f"
    target.write_text("old")

    await put(target, b"x" * size, durable=durable, mode=0o4751)

    assert target.read_bytes() == b"x" * size
    assert stat.S_IMODE(target.stat().st_mode) == 0o4751
    assert leftovers(tmp_path) == []


async def test_nobody_sees_the_temporary_s_content(tmp_path):
    """The temporary is 0600 while it is written, has its name, and is complete when it is checked."""
    seen = {}

    async def check(path: str) -> None:
        seen[Path(path).name] = Path(path).read_bytes()

    old = os.umask(0)
    try:
        handle = paths.at(str(tmp_path / "probe")).create(0o600)
        assert stat.S_IMODE(os.fstat(handle.fd).st_mode) == 0o600
        await put(tmp_path / "motd", check=check)
    finally:
        os.umask(old)

    ((name, content),) = seen.items()
    assert files.TEMPORARY.fullmatch(name.encode())
    assert name.startswith(".motd.holdfast-")
    assert content == b"new"


async def test_a_check_that_refuses_leaves_all_as_it_was(tmp_path):
    """An error from the check is passed on; target untouched, nothing left."""
    target = tmp_path / "f"
    target.write_text("old")

    async def refuse(path: str) -> None:
        raise ValueError(path)

    with pytest.raises(ValueError, match="holdfast"):
        await put(target, check=refuse)
    assert (target.read_text(), leftovers(tmp_path)) == ("old", [])


@pytest.mark.parametrize("durable", [False, True])
async def test_cancelled_anywhere_leaves_nothing(tmp_path, durable):
    """Cancelled after any number of steps of the loop: the old content or the new, and no temporary."""
    target = tmp_path / "f"
    for steps in range(8):
        target.write_text("old")
        blocking = Blocking(limit=1)
        task = asyncio.create_task(replace(Replacement(str(target), b"new", 0o600, -1, -1, durable), blocking))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await blocking(int)  # so the only place is free: no thread is still at work
        assert target.read_text() in {"old", "new"}
        assert leftovers(tmp_path) == []


async def test_the_temporary_s_name_fits_any_target(tmp_path):
    """A name as long as the file system allows, also of several bytes a character, can be written."""
    for name in ("n" * 255, "ü" * 127):
        await put(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"new"


async def test_error_of_the_target_leaves_nothing(tmp_path):
    """A target that cannot be renamed over is an OSError, and the temporary goes."""
    (tmp_path / "d" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        await put(tmp_path / "d")
    with pytest.raises(FileNotFoundError):
        await put(tmp_path / "missing" / "f")
    assert leftovers(tmp_path) == []


def test_placing_at_once_leaves_nothing_either(tmp_path):
    """Without a loop, too: a target that cannot be renamed over is an OSError, and the temporary goes."""
    (tmp_path / "d" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        Replacement(str(tmp_path / "d"), b"new", 0o600, -1, -1, durable=False).place()
    assert leftovers(tmp_path) == []


async def test_attributes_are_kept(tmp_path):
    """User attributes of the file that is replaced are handed on."""
    target = tmp_path / "f"
    target.write_text("old")
    try:
        os.setxattr(target, "user.origin", b"here")
    except OSError:
        pytest.skip("no extended attributes on this file system")

    await put(target)

    assert os.getxattr(target, "user.origin") == b"here"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_owner(tmp_path):
    """Owner and group are set, and set-uid bits survive that."""
    await put(tmp_path / "f", uid=1, gid=2, mode=0o4755)
    s = (tmp_path / "f").stat()
    assert (s.st_uid, s.st_gid, stat.S_IMODE(s.st_mode)) == (1, 2, 0o4755)


def test_what_a_killed_agent_left_is_removed(tmp_path):
    """A temporary of a process that was killed in mid-write goes at the next write; one of a live process stays."""
    script = """
        import asyncio, os, sys
        from holdfast.agent.host.blocking import Blocking
        from holdfast.agent.host.files import Replacement, replace

        async def check(path):
            print(path, flush=True)
            await asyncio.Event().wait()

        asyncio.run(replace(Replacement(sys.argv[1], b"half", 0o600, -1, -1, False), Blocking(), check))
    """
    target = tmp_path / "f"
    agent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(target)], stdout=subprocess.PIPE, text=True
    )
    left = Path(agent.stdout.readline().strip())
    asyncio.run(put(target))
    assert left.exists()
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    files._swept.clear()  # as in a new process

    asyncio.run(put(target))

    assert not left.exists()
    assert target.read_bytes() == b"new"


def test_sweeping_touches_only_what_is_ours(tmp_path):
    """Names that merely look similar are left alone."""
    ours, others = (
        tmp_path / ".f.holdfast-3fffff-0",
        [tmp_path / ".f.holdfast-x", tmp_path / "f.holdfast-3fffff-0", tmp_path / ".holdfast"],
    )
    for path in (ours, *others):
        path.write_text("x")

    files.sweep(paths.directory(str(tmp_path)))

    assert not ours.exists()
    assert all(path.exists() for path in others)


def test_a_directory_is_swept_again_later(tmp_path, monkeypatch):
    """What a one-shot run that was killed left after the agent's first look goes, too, some minutes later."""
    files.sweep(paths.directory(str(tmp_path)))
    process = subprocess.Popen(["true"])
    process.wait()
    left = tmp_path / f".f.holdfast-{process.pid:x}-0"
    left.write_text("half")
    files.sweep(paths.directory(str(tmp_path)))
    assert left.exists()

    monkeypatch.setattr(files, "SWEEP", 0.0)
    files.sweep(paths.directory(str(tmp_path)))
    assert not left.exists()
