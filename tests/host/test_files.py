"""Files are replaced atomically, without half-written files or leftovers, whatever happens during the write."""

from __future__ import annotations

import asyncio
import errno
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
    """Write a file."""
    await replace(Replacement(str(path), data, mode, uid, gid, durable), Blocking(), check)


def leftovers(directory: Path) -> list[str]:
    """Return the temporary files in a directory."""
    return [path.name for path in directory.iterdir() if ".holdfast-" in path.name]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("size", [0, 3, 3 << 20])
async def test_content_and_mode(tmp_path, durable, size):
    """Small and large files, durable or not, get the content and the exact mode, whatever the umask is."""
    target = tmp_path / "f"
    target.write_text("old")

    await put(target, b"x" * size, durable=durable, mode=0o4751)

    assert target.read_bytes() == b"x" * size
    assert stat.S_IMODE(target.stat().st_mode) == 0o4751
    assert leftovers(tmp_path) == []


async def test_the_temporary_file_is_private(tmp_path):
    """The temporary file has mode 0600 while it is written, and is complete when it is checked."""
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


async def test_a_refusing_check_leaves_everything_unchanged(tmp_path):
    """An error of the check is passed on; the target is unchanged, and no temporary file is left."""
    target = tmp_path / "f"
    target.write_text("old")

    async def refuse(path: str) -> None:
        raise ValueError(path)

    with pytest.raises(ValueError, match="holdfast"):
        await put(target, check=refuse)
    assert (target.read_text(), leftovers(tmp_path)) == ("old", [])


@pytest.mark.parametrize("durable", [False, True])
async def test_cancellation_at_any_step_leaves_nothing(tmp_path, durable):
    """Whenever the write is cancelled, the file has the old or the new content, and no temporary file is left."""
    target = tmp_path / "f"
    for steps in range(8):
        target.write_text("old")
        blocking = Blocking(limit=1)
        task = asyncio.create_task(replace(Replacement(str(target), b"new", 0o600, -1, -1, durable), blocking))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await blocking(int)  # the only thread is free, so the write has ended
        assert target.read_text() in {"old", "new"}
        assert leftovers(tmp_path) == []


async def test_the_temporary_name_fits_any_target(tmp_path):
    """A file can have the longest name that the file system allows, also with multi-byte characters."""
    for name in ("n" * 255, "ü" * 127):
        await put(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"new"


async def test_a_target_that_cannot_be_replaced_leaves_nothing(tmp_path):
    """A target that cannot be replaced raises an OSError, and the temporary file is removed."""
    (tmp_path / "d" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        await put(tmp_path / "d")
    with pytest.raises(FileNotFoundError):
        await put(tmp_path / "missing" / "f")
    assert leftovers(tmp_path) == []


async def test_a_file_that_could_not_be_written_takes_no_room(tmp_path, monkeypatch):
    """The descriptor is closed while the error is still referenced; otherwise a full disk would stay full."""

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as kept:
        await put(tmp_path / "f", durable=True)
    assert kept.value.__traceback__ is not None
    opened = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [path for path in opened if str(tmp_path) in path] == []


def test_writing_without_a_loop_leaves_nothing_either(tmp_path):
    """The same holds for a write without an event loop."""
    (tmp_path / "d" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        Replacement(str(tmp_path / "d"), b"new", 0o600, -1, -1, durable=False).place()
    assert leftovers(tmp_path) == []


async def test_attributes_are_kept(tmp_path):
    """Extended attributes of the user namespace are copied from the replaced file."""
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
    """Owner and group are set, and set-uid bits are kept."""
    await put(tmp_path / "f", uid=1, gid=2, mode=0o4755)
    s = (tmp_path / "f").stat()
    assert (s.st_uid, s.st_gid, stat.S_IMODE(s.st_mode)) == (1, 2, 0o4755)


def test_temporary_files_of_a_killed_agent_are_removed(tmp_path):
    """The next write removes the temporary file of a killed process; that of a live process stays."""
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


def test_only_our_own_temporary_files_are_removed(tmp_path):
    """Files with similar names stay."""
    ours, others = (
        tmp_path / ".f.holdfast-3fffff-0",
        [tmp_path / ".f.holdfast-x", tmp_path / "f.holdfast-3fffff-0", tmp_path / ".holdfast"],
    )
    for path in (ours, *others):
        path.write_text("x")

    files.sweep(paths.directory(str(tmp_path)))

    assert not ours.exists()
    assert all(path.exists() for path in others)


def test_a_directory_is_cleaned_again_later(tmp_path, monkeypatch):
    """A file that a killed one-shot run leaves after the agent's first cleaning is removed some minutes later."""
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
