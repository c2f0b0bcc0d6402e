"""The agent notices changes of its configuration, however they are made, and reports each once."""

import asyncio
import logging
import resource
import shutil
import threading
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent import config_watch, configuration_files, observer
from holdfast.agent.config_watch import ConfigWatch
from holdfast.agent.configuration_files import ConfigurationFiles, MadeFrom
from holdfast.agent.health import Health
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.agent.host.source_store import digest_of
from holdfast.agent.settings import WatchSettings, load


@pytest.fixture
def root(tmp_path):
    """A configuration in the default layout."""
    base = tmp_path / "etc"
    (base / "states").mkdir(parents=True)
    (base / "pillar").mkdir()
    (base / "agent.yaml").write_text("id: x\n")
    (base / "states/web.sls").write_text("a: test.nop\n")
    return base


class Watching:
    """A running watch of a configuration, and the changes that it reported."""

    def __init__(self, watched, **settings):
        self.told = asyncio.Queue()
        self.health = Health()
        self.paths = PathWatcher(self.health)
        self.watch = ConfigWatch(
            watched, WatchSettings(**{"settle": 0.02, **settings}), self.told.put_nowait, self.health, self.paths
        )

    async def __aenter__(self):
        """Start to watch or to poll."""
        self.task = asyncio.create_task(self.watch.run())
        while self.watch._reach is None and "config-polling" not in {
            condition.code for condition in self.health.conditions
        }:
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        """Stop the watch."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.paths.close()

    def lose_events(self):
        """Let watchdog report no more events, without an error."""
        self.watch._observer._observer.unschedule_all()

    async def next(self):
        """Wait for a change; return the names of the files that changed."""
        async with asyncio.timeout(DEADLINE):
            return [Path(path).name for path in await self.told.get()]


def files_of(root):
    """Return the files and directories that the settings in this root name."""
    root.chmod(0o755)
    return ConfigurationFiles.of(load(root / "agent.yaml"), root / "agent.yaml")


def test_the_default_layout_takes_one_watch(root):
    """States, pillar, kinds and settings below one directory need one thread, not five."""
    assert files_of(root).roots() == {str(root): True}


def test_a_home_directory_is_not_watched_whole(root):
    """A directory with settings and other files is not watched recursively."""
    (root / "mail").mkdir()

    assert files_of(root).roots() == {str(root): False, str(root / "states"): True, str(root / "pillar"): True}
    assert files_of(root).main() == str(root / "states")


@pytest.mark.parametrize("among_others", [False, True])
async def test_a_watch_takes_at_most_three_threads(root, among_others):
    """The number of threads does not depend on the layout."""
    if among_others:
        (root / "mail").mkdir()
    before = set(threading.enumerate())
    async with Watching(files_of(root)):
        lasting = [each for each in set(threading.enumerate()) - before if each.name != "holdfast-blocking"]
        assert len(lasting) <= 3


CHANGES = {
    "written": lambda root: (root / "states/web.sls").write_text("b: test.nop\n"),
    "replaced": lambda root: (root / "new").write_text("") or (root / "new").rename(root / "states/web.sls"),
    "added": lambda root: (root / "states/web.sls").with_name("db.sls").write_text(""),
    "removed": lambda root: (root / "states/web.sls").unlink(),
    "mode": lambda root: (root / "states/web.sls").chmod(0o666),
    "pillar": lambda root: (root / "pillar/x.sls").write_text(""),
    "settings": lambda root: (root / "agent.yaml").write_text("id: y\n"),
    "new directory": lambda root: (
        (root / "states/deep/er").mkdir(parents=True) or (root / "states/deep/er/x.sls").write_text("")
    ),
    "grains": lambda root: (root / "grains").write_text("a: 1\n"),
    "own kinds": lambda root: (root / "resources").mkdir() or (root / "resources/mine.py").write_text(""),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_noticed(root, name):
    """Each way to change a configuration is noticed."""
    async with Watching(files_of(root)) as watching:
        CHANGES[name](root)

        assert await watching.next()


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_beside_other_files_is_noticed(root, name):
    """Settings, pillar and kinds are in a directory with many other files."""
    (root / "mail").mkdir()
    async with Watching(files_of(root)) as watching:
        CHANGES[name](root)

        assert await watching.next()


async def test_many_writes_are_one_change(root):
    """A git checkout is one change, reported once no file changes any more."""
    async with Watching(files_of(root), settle=0.2) as watching:
        for number in range(50):
            (root / f"states/s{number}.sls").write_text("")

        assert len(await watching.next()) == 50
        assert watching.told.empty()


async def test_continuous_writing_delays_a_report_by_a_limited_time(root):
    """The delay is at most `settle_limit`."""
    async with Watching(files_of(root), settle=0.1, settle_limit=0.3) as watching:
        told = asyncio.create_task(watching.next())
        number = 0
        while not told.done():
            number += 1
            (root / "states/web.sls").write_text(str(number))
            await asyncio.sleep(0.01)

        assert await told == ["web.sls"]


async def test_reading_and_backups_of_editors_are_no_changes(root):
    """The agent does not compile because of its own reads, hidden files or backups."""
    async with Watching(files_of(root)) as watching:
        (root / "states/web.sls").read_text()
        (root / "states/.web.sls.swp").write_text("")
        (root / "states/web.sls~").write_text("")
        (root / "states/last.sls").write_text("")

        assert await watching.next() == ["last.sls"]


async def test_the_new_target_of_a_link_is_watched(root, tmp_path):
    """Deployments switch a symbolic link; the new directory is seen and watched."""
    for release in ("r1", "r2"):
        (tmp_path / release).mkdir()
        (tmp_path / release / f"{release}.sls").write_text("")
    shutil.rmtree(root / "states")
    (root / "states").symlink_to(tmp_path / "r1")
    async with Watching(files_of(root)) as watching:
        (root / "link").symlink_to(tmp_path / "r2")
        (root / "link").rename(root / "states")
        assert set(await watching.next()) >= {"r1.sls", "r2.sls"}
        (tmp_path / "r2/more.sls").write_text("")
        assert await watching.next() == ["more.sls"]


async def test_a_recreated_directory_is_watched_again(root, monkeypatch):
    """The states directory was removed and created again."""
    monkeypatch.setattr(config_watch, "POLL", 0.05)
    (root / "other").mkdir()
    async with Watching(files_of(root)) as watching:
        shutil.rmtree(root / "states")
        assert "web.sls" in await watching.next()
        (root / "states").mkdir()
        assert await watching.next() == ["states"]
        (root / "states/web.sls").write_text("")
        assert await watching.next() == ["web.sls"]


async def test_changes_are_found_after_an_overflow_of_inotify(root):
    """The library only logs an overflow of the kernel's queue. The agent then compares all files."""
    async with Watching(files_of(root)) as watching:
        watching.lose_events()
        (root / "states/web.sls").write_text("changed: test.nop\n")
        logging.getLogger("watchdog.observers.inotify_c").warning(
            "Inotify queue overflowed; filesystem events were lost"
        )

        assert await watching.next() == ["web.sls"]


async def test_without_inotify_the_configuration_is_polled(root, monkeypatch):
    """A health problem names the limit of inotify that is reached."""

    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(observer.InotifyObserver, "start", full)
    monkeypatch.setattr(config_watch, "POLL", 0.05)
    async with Watching(files_of(root)) as watching:
        (root / "states/web.sls").write_text("")

        assert await watching.next() == ["web.sls"]
        assert watching.health.conditions[0].code == "config-polling"
        assert "limit of inotify" in watching.health.conditions[0].text


async def test_an_update_watches_other_directories(root, tmp_path):
    """Settings may name other directories while the agent runs."""
    (tmp_path / "elsewhere").mkdir()
    async with Watching(files_of(root)) as watching:
        await watching.watch.update(
            ConfigurationFiles((tmp_path / "elsewhere",), (root / "agent.yaml",)), WatchSettings(settle=0.02)
        )
        (tmp_path / "elsewhere/new.sls").write_text("")

        assert await watching.next() == ["new.sls"]


async def test_no_walk_through_a_directory_runs_in_the_event_loop(root, tmp_path, monkeypatch):
    """An update, a poll, and the start and end of watchdog all walk through directories in other threads."""
    (tmp_path / "elsewhere").mkdir()
    walkers = {}

    def note(owner, name):
        real = getattr(owner, name)

        def noting(*args, **options):
            walkers.setdefault(name, set()).add(threading.current_thread())
            return real(*args, **options)

        monkeypatch.setattr(owner, name, noting)

    watching = Watching(files_of(root))
    for owner, name in (
        (configuration_files, "_walk"),
        (ConfigurationFiles, "reach"),
        (observer.InotifyObserver, "start"),
        (observer.InotifyObserver, "stop"),
    ):
        note(owner, name)
    async with watching:
        await watching.watch.update(
            ConfigurationFiles((tmp_path / "elsewhere",), (root / "agent.yaml",)), WatchSettings(settle=0.02)
        )
        (tmp_path / "elsewhere/new.sls").write_text("")
        assert await watching.next() == ["new.sls"]
    assert walkers.keys() == {"_walk", "reach", "start", "stop"}
    assert threading.current_thread() not in set().union(*walkers.values())


async def test_a_change_during_an_update_is_noticed(root, tmp_path, monkeypatch):
    """Changes while the new directories are read are reported.

    So are changes of agent.yaml, which the update was read from.
    """
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with Watching(files_of(root)) as watching:
        real = ConfigurationFiles.signature

        def signature(self):
            monkeypatch.undo()
            (root / "agent.yaml").write_text("id: another\n")
            found = real(self)
            (elsewhere / "new.sls").write_text("")
            return found

        monkeypatch.setattr(ConfigurationFiles, "signature", signature)
        await watching.watch.update(
            ConfigurationFiles((elsewhere,), (root / "agent.yaml",)), WatchSettings(settle=0.02)
        )

        assert sorted(await watching.next()) == ["agent.yaml", "new.sls"]


def test_a_walk_follows_a_loop_of_links_once(root):
    """A link leads to a directory above it."""
    (root / "states/up").symlink_to(root)

    assert str(root / "states/up/agent.yaml") in ConfigurationFiles((root / "states",), ()).signature()
    assert Path(root / "states/up/states/up") not in ConfigurationFiles((root / "states",), ()).signature()


async def test_unreadable_entries_do_not_end_the_watch(root):
    """A link that leads to itself is left out; all else is watched."""
    (root / "states/loop").symlink_to("loop")
    async with Watching(files_of(root)) as watching:
        (root / "states/again").symlink_to("again")
        (root / "states/db.sls").write_text("")
        assert await watching.next() == ["db.sls"]
        (root / "states/web.sls").write_text("")
        assert await watching.next() == ["web.sls"]


async def test_a_directory_that_vanishes_while_it_is_read(root, monkeypatch):
    """Two errors of the system during a poll only delay the report of the change."""
    monkeypatch.setattr(config_watch, "POLL", 0.05)
    async with Watching(files_of(root)) as watching:
        real, failures = (
            ConfigurationFiles.signature,
            [FileNotFoundError(2, "No such file or directory"), PermissionError(13, "Permission denied")],
        )

        def signature(watched):
            if failures:
                raise failures.pop()
            return real(watched)

        monkeypatch.setattr(ConfigurationFiles, "signature", signature)
        (root / "states/web.sls").write_text("changed: test.nop\n")

        assert await watching.next() == ["web.sls"]
        assert failures == []
        assert watching.health.conditions == ()


def test_the_inode_of_a_removed_file_is_zero(root):
    """The file may be removed between the listing of its directory and the call of stat."""
    assert configuration_files._inode(str(root)) == root.stat().st_ino
    assert configuration_files._inode(str(root / "gone")) == 0


@pytest.mark.parametrize("spare", [0, 1, 2, 4])
async def test_the_watch_recovers_from_a_lack_of_descriptors(root, monkeypatch, spare):
    """Without enough descriptors, the configuration is polled, and health reports it.

    Once there are enough, it is watched again, and no descriptor is lost.
    """
    monkeypatch.setattr(config_watch, "POLL", 0.05)
    before = len(list(Path("/proc/self/fd").iterdir()))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    watching = Watching(files_of(root))
    try:
        free = [number for number in range(3, 200) if not Path(f"/proc/self/fd/{number}").exists()]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], limits[1]))
        async with watching:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert [condition.code for condition in watching.health.conditions] == ["config-polling"]
            (root / "states/web.sls").write_text("")
            assert await watching.next() == ["web.sls"]
            assert not watching.health.conditions
            (root / "states/deep").mkdir()
            assert await watching.next() == ["deep"]
            (root / "states/deep/x.sls").write_text("")
            assert await watching.next() == ["x.sls"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_lack_of_descriptors_during_a_watch_is_no_change(root, monkeypatch):
    """A directory that cannot be read for lack of descriptors has not changed, and stays watched."""
    monkeypatch.setattr(config_watch, "POLL", 0.05)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Watching(files_of(root)) as watching:
        (root / "states/first.sls").write_text("")
        assert await watching.next() == ["first.sls"]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            watching.watch._touch()
            while not watching.health.conditions:
                await asyncio.sleep(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert watching.told.empty()
        (root / "states/web.sls").write_text("changed: test.nop\n")
        assert await watching.next() == ["web.sls"]


async def test_a_poll_restores_lost_watches(root):
    """The poll finds the change that watchdog missed; later changes are events again."""
    async with Watching(files_of(root), rescan=1) as watching:
        watching.lose_events()
        (root / "states/web.sls").write_text("")
        assert await watching.next() == ["web.sls"]
        (root / "states/web.sls").write_text("b: test.nop\n")
        assert await watching.next() == ["web.sls"]


def test_a_source_that_cannot_be_read_counts_as_changed(tmp_path):
    """If the source is missing or its link is broken, the states are compiled again, which reports it."""
    kept, missing, loop = tmp_path / "kept", tmp_path / "missing", tmp_path / "loop"
    kept.write_text("x")
    loop.symlink_to(loop)

    made = MadeFrom(lambda: [(str(path), digest_of(b"x")) for path in (kept, missing, loop)])
    assert made.unchanged({str(kept), str(missing), str(loop)}, others=False) == {str(kept)}
