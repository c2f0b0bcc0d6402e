"""Content that repairs replace or remove is first stored privately and within limits, or its loss is reported."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.agent.host import kept as module
from holdfast.agent.host.context import HostContext
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.kept_bounds import KeptBounds
from holdfast.resources import paths
from holdfast.resources.kinds.file import removal
from holdfast.resources.replaced import ReplacedFile
from holdfast.resources.report import Report

KIB = 1 << 10


class Site:
    """A host with a directory of managed files."""

    def __init__(self, tmp: Path) -> None:
        self.state, self.files = tmp / "state", tmp / "files"
        self.state.mkdir(mode=0o700)
        self.files.mkdir()
        self.secret = "hunter2-hunter2"
        self.host = LocalHost(
            states=tmp / "states", var_dir=self.state, durable=False, pillar={"db": {"password": self.secret}}
        )

    @property
    def kept(self) -> list[str]:
        """Return the names of the kept files."""
        directory = self.state / "kept"
        return sorted(each.name for each in directory.iterdir()) if directory.exists() else []

    def file(self, content: str = "by hand\n", name: str = "motd", mode: int = 0o644) -> Path:
        """Write a file directly, without the agent."""
        path = self.files / name
        path.write_text(content)
        path.chmod(mode)
        return path

    def run(self) -> HostContext:
        """Return the context of a new run."""
        context = self.host.context("file.managed[motd]")
        context.report = Report()
        return context

    async def written(self, path: Path, mode: int = 0o644, *, private: bool = False) -> ReplacedFile:
        """Replace a file in a run; return the report."""
        run = self.run()
        with run.keeping(private=private):
            await run.write_file(str(path), b"declared\n", mode=mode)
        assert path.read_text() == "declared\n"
        (found,) = run.report.replaced
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a host with a directory of managed files."""
    return Site(tmp_path)


def digest(content: str) -> str:
    """Return the name under which content is kept."""
    return hashlib.sha256(content.encode()).hexdigest()


async def test_content_that_is_replaced_is_kept_privately(site: Site) -> None:
    """The report has its hash, size, owner and mode."""
    path = site.file("by hand\n", mode=0o664)
    found = await site.written(path)

    assert found == ReplacedFile(str(path), digest("by hand\n"), 8, 0o664, os.geteuid(), os.getegid())
    copy = site.state / "kept" / found.sha256
    assert copy.read_text() == "by hand\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


async def test_a_new_file_replaces_nothing(site: Site) -> None:
    """Nothing is reported, and no directory is created."""
    run = site.run()
    with run.keeping(private=False):
        await run.write_file(str(site.files / "new"), b"x", mode=0o644)

    assert run.report.replaced == []
    assert site.kept == []


async def test_equal_content_is_kept_once_and_counts_as_new(site: Site) -> None:
    """A file that flaps takes the space of one file."""
    for _ in range(3):
        await site.written(site.file())
    assert site.kept == [digest("by hand\n")]

    copy = site.state / "kept" / site.kept[0]
    os.utime(copy, (1, 1))
    await site.written(site.file())
    assert copy.stat().st_mtime > time.time() - 60


async def test_damaged_content_is_written_again(site: Site) -> None:
    """The content of an existing copy is compared, not only its name and size."""
    found = await site.written(site.file())
    copy = site.state / "kept" / found.sha256
    copy.write_text("by h4nd\n")
    assert site.host.kept.read(found.sha256) is None

    await site.written(site.file())
    assert site.host.kept.read(found.sha256) == b"by hand\n"


@pytest.mark.parametrize(
    ("content", "modes", "private", "why"),
    [
        ("x\n", (0o640, 0o644), False, "others may not read the file"),
        ("x\n", (0o644, 0o600), False, "others may not read the file"),
        ("x\n", (0o644, 0o644), True, "the state hides it"),
        ("a hunter2-hunter2 b\n", (0o644, 0o644), False, "it contains a secret"),
        ("x" * (1 + (1 << 20)), (0o644, 0o644), False, "it has more than 1 MiB"),
    ],
    ids=["present-mode", "declared-mode", "hidden-by-the-state", "secret-of-the-pillar", "large"],
)
async def test_what_may_be_secret_or_is_large_is_not_kept_and_that_is_said(
    site: Site, content: str, modes: tuple[int, int], private: bool, why: str
) -> None:
    """The directory contains no such content, and the report not even its hash."""
    found = await site.written(site.file(content, mode=modes[0]), modes[1], private=private)

    assert why in found.lost
    assert found.sha256 == ""
    assert site.kept == []


async def test_removed_files_and_links_are_reported(site: Site) -> None:
    """Of a removed directory, each file is kept, a link is reported with its target, and a fifo has no content."""
    tree = site.files / "tree"
    (tree / "inside").mkdir(parents=True)
    (tree / "inside/a").write_text("a\n")
    (tree / "b").write_text("b\n")
    (tree / "link").symlink_to("/etc/passwd")
    os.mkfifo(tree / "fifo")
    run = site.run()
    with run.keeping(private=False):
        await run.long_blocking(removal.remove, paths.at(str(tree)))

    assert {(Path(each.path).name, each.sha256, each.link) for each in run.report.replaced} == {
        ("a", digest("a\n"), ""),
        ("b", digest("b\n"), ""),
        ("link", "", "/etc/passwd"),
    }
    assert not tree.exists()


async def test_of_a_large_tree_the_rest_is_only_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One removal neither displaces all other content nor makes a record of any length."""
    monkeypatch.setattr(module, "MOST", 3)
    for number in range(10):
        site.file(f"{number}\n", f"{number}")
    run = site.run()
    with run.keeping(private=False):
        await run.long_blocking(removal.remove, paths.at(str(site.files)))

    assert len(site.kept) == 3
    assert [each.path == "" for each in run.report.replaced] == [False, False, False, True]
    assert run.report.replaced[-1].lost == "7 more files: of one change at most 3 files are kept"


async def test_the_oldest_content_makes_room(site: Site) -> None:
    """Many drifts within a second have different content: the space is limited, and the latest content exists."""
    site.host.kept.use(KeptBounds(room=40 * KIB), durable=False)
    for number in range(30):
        await site.written(site.file(f"drift {number}\n"))
        os.utime(site.state / "kept" / digest(f"drift {number}\n"), (number, number))

    assert len(site.kept) <= 10
    assert digest("drift 29\n") in site.kept
    assert digest("drift 0\n") not in site.kept


async def test_a_clock_that_was_ahead_makes_no_content_newer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock was a year ahead for one of thirty files. That file is removed in its turn, also after a restart."""
    bounds, now = KeptBounds(room=40 * KIB), time.time()
    year, contents = 365 * 86_400, [f"{number}".encode() for number in range(30)]
    kept = KeptFiles(str(site.state), bounds, durable=False)
    for number, data in enumerate(contents):
        monkeypatch.setattr(module.time, "time", lambda number=number: now + number + (year if number == 3 else 0))
        if number == 6:
            kept = KeptFiles(str(site.state), bounds, durable=False)
        kept.keep(data)

    names = [hashlib.sha256(data).hexdigest() for data in contents]
    assert 8 < len(site.kept) <= 10
    assert set(site.kept) == set(names[-len(site.kept) :])


async def test_what_another_process_keeps_counts(site: Site) -> None:
    """A one-shot run beside the agent uses the same directory."""
    other = KeptFiles(str(site.state), KeptBounds(room=40 * KIB), durable=False)
    site.host.kept.use(KeptBounds(room=40 * KIB), durable=False)
    for number in range(15):
        other.keep(f"other {number}\n".encode())
        await site.written(site.file(f"drift {number}\n"))

    assert len(site.kept) <= 11


async def test_one_change_fills_a_quarter_of_the_room(site: Site) -> None:
    """The report lists the other files of the change as lost."""
    site.host.kept.use(KeptBounds(room=64 * KIB), durable=False)
    for number in range(8):
        site.file(f"{number}\n", f"{number}")
    run = site.run()
    with run.keeping(private=False):
        await run.long_blocking(removal.remove, paths.at(str(site.files)))

    assert len(site.kept) == 4
    assert {each.lost for each in run.report.replaced if not each.sha256} == {
        "this change fills a quarter of 0 MiB (records.kept)"
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
async def test_a_full_disk_does_not_prevent_the_repair(site: Site) -> None:
    """On a real full file system, nothing is left, and the report has the reason."""
    mounted = await asyncio.to_thread(subprocess.run, ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", site.state])
    assert mounted.returncode == 0
    try:
        (site.state / "filler").write_bytes(b"x" * (56 << 10))
        found = await site.written(site.file("y" * (32 << 10)))
        assert found.lost == "it could not be kept: the free space on the disk is reserved for the journal"
        assert site.kept == []
    finally:
        await asyncio.to_thread(subprocess.run, ["umount", site.state], check=True)


async def test_a_directory_that_cannot_be_made_does_not_prevent_the_repair(site: Site) -> None:
    """A file has the name of the directory."""
    (site.state / "kept").write_text("not a directory")
    found = await site.written(site.file())

    assert found.lost == f"it could not be kept: {os.strerror(errno.ENOTDIR)}"


async def test_temporaries_and_the_agents_own_files_are_not_kept(site: Site) -> None:
    """A failed check leaves the file unchanged, and nothing is reported as replaced."""
    own = site.state / "resources.txt"
    own.write_text("own")
    run = site.run()

    async def refuse(_: str) -> None:
        raise ValueError("no")

    with run.keeping(private=False):
        await run.write_file(str(own), b"new", mode=0o644)
        with pytest.raises(ValueError, match="no"):
            await run.write_file(str(site.file()), b"new", mode=0o644, check=refuse)

    assert run.report.replaced == []
    assert site.kept == [digest("by hand\n")]  # no record refers to it, so it is removed later


async def test_content_is_on_the_disk_before_a_check_and_reported_after_it(site: Site) -> None:
    """What changes during the check is what is kept and reported, so little time is left in which it could be lost."""
    path = site.file("first\n")
    run = site.run()

    async def check(_: str) -> None:
        assert site.kept == [digest("first\n")]
        assert run.report.replaced == []
        path.write_text("second\n")

    with run.keeping(private=False):
        await run.write_file(str(path), b"declared\n", mode=0o644, check=check)

    assert [each.sha256 for each in run.report.replaced] == [digest("second\n")]
    assert site.kept == sorted([digest("first\n"), digest("second\n")])


async def test_a_file_that_cannot_be_read_is_reported_with_the_reason(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that disappears at that moment is not reported, because nothing was replaced."""
    reasons: list[OSError] = [OSError(errno.EIO, os.strerror(errno.EIO)), FileNotFoundError(errno.ENOENT, "gone")]

    def fail(*_: object) -> bytes:
        raise reasons.pop(0)

    monkeypatch.setattr(module, "read_whole", fail)
    found = await site.written(site.file())
    assert found.lost == "it could not be kept: Input/output error"

    run = site.run()
    with run.keeping(private=False):
        await run.write_file(str(site.file()), b"x", mode=0o644)
    assert run.report.replaced == []


async def test_owner_and_mode_that_are_changed_in_place_are_reported(site: Site) -> None:
    """The content does not change, so it is not kept."""
    path = site.file(mode=0o666)
    run = site.run()
    with run.keeping(private=False):
        paths.change(paths.at(str(path)), path.stat(), mode=0o644)

    assert run.report.replaced == [ReplacedFile(str(path), "", 8, 0o666, os.geteuid(), os.getegid())]
    assert site.kept == []


async def test_outside_of_a_run_nothing_is_kept(site: Site) -> None:
    """Content that is replaced after the body of `keeping` is not kept."""
    path = site.file()
    run = site.run()
    with run.keeping(private=False):
        pass
    await run.write_file(str(path), b"new", mode=0o644)

    assert site.kept == []


async def test_runs_at_the_same_time_report_their_own_files(site: Site) -> None:
    """Files that are written in threads are reported by their runs, too."""
    paths_of = [site.file(f"{number}\n", f"{number}") for number in range(20)]
    site.host.durable = True
    found = await asyncio.gather(*(site.written(path) for path in paths_of))

    assert [each.path for each in found] == [str(path) for path in paths_of]


def test_unneeded_content_is_removed_once_it_is_old(site: Site) -> None:
    """Recent content stays, because its record may not be written yet."""
    kept = site.host.kept
    names = [kept.keep(text) for text in (b"needed", b"unneeded", b"new")]
    for name in names[:2]:
        os.utime(site.state / "kept" / name, (1, 1))
    kept.remove_all_but({names[0]}, before=time.time() - 60)

    assert site.kept == sorted([names[0], names[2]])


@pytest.mark.skipif(os.geteuid() != 0, reason="another user must own the directory")
async def test_the_owner_of_a_directory_cannot_have_others_files_kept(site: Site, tmp_path: Path) -> None:
    """The user makes a hard link and a symbolic link to a file that only others can read."""
    shadow = tmp_path / "shadow"
    shadow.write_text("root's own\n")
    shadow.chmod(0o600)
    os.chown(site.files, 4242, 4242)
    os.link(shadow, site.files / "motd")
    found = await site.written(site.files / "motd")
    assert "others may not read" in found.lost

    (site.files / "link").symlink_to(shadow)
    found = await site.written(site.files / "link")
    assert (found.link, found.sha256) == (str(shadow), "")
    assert site.kept == []


WRITER = """
import asyncio, sys
from pathlib import Path
from holdfast.agent.host.host import LocalHost
from holdfast.resources.report import Report

async def main(state, path):
    host = LocalHost(states=Path("/nonexistent"), var_dir=Path(state), durable=False)
    run = host.context("file.managed[motd]")
    print("ready", flush=True)
    number = 0
    while True:
        run.report = Report()
        number += 1
        Path(path).write_text(f"drift {number}" * 20000)
        Path(path).chmod(0o644)
        with run.keeping(private=False):
            await run.write_file(path, b"declared" * 20000, mode=0o644)

asyncio.run(main(*sys.argv[1:]))
"""


def test_kill_9_leaves_whole_files_only(site: Site) -> None:
    """At any moment of a kill, each kept file is private and has the content that its name states.

    Takes a second: it kills 12 processes, each of which imports the agent.
    """
    target = site.files / "motd"
    for turn in range(12):
        with subprocess.Popen([sys.executable, "-c", WRITER, site.state, target], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            until = time.monotonic() + 0.02 + turn * 0.003
            while time.monotonic() < until:
                pass
            process.send_signal(signal.SIGKILL)
    whole = [name for name in site.kept if not name.startswith(".")]
    assert whole
    for name in site.kept:
        path = site.state / "kept" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name in whole:
        assert hashlib.sha256((site.state / "kept" / name).read_bytes()).hexdigest() == name
