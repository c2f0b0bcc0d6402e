"""The files of the configuration, and snapshots of their metadata: comparing two snapshots shows what has changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from holdfast.agent.configuration import Compiled
from holdfast.agent.host.source_snapshot import SourceSnapshot
from holdfast.agent.host.source_store import FILE, digest_of, large
from holdfast.agent.plugins.plugin_settings import files_of
from holdfast.agent.settings import Settings
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.source.files import looks
from holdfast.states.source.hostfiles import absolute, look

SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM})
"""Errors of a reached limit: they say nothing about the file."""
Signature = Mapping[str, tuple[int, ...]]
"""Path -> metadata that changes when the file changes."""


class MadeFrom(NamedTuple):
    """The files that the running graph was made from."""

    files: Callable[[], Iterable[tuple[str, str]]]
    """Returns all files with their digests; files may be added while the graph runs."""
    trees: Sequence[str] = ()
    """Directories that count with all their content, hidden entries included."""

    def unchanged(self, seen: Collection[str], others: bool) -> set[str]:
        """Return the paths among `seen` that are unchanged since the graph was made.

        With `others`, paths that the graph was not made from are returned, too.
        """
        known = {path: digest for path, digest in self.files() if path in seen}
        same = {path for path, digest in known.items() if _holds(path, digest)}
        return same | {path for path in seen if others and path not in known}


def made_from(compiled: Compiled, snapshot: SourceSnapshot) -> MadeFrom:
    """Return all files that a graph was made from: state files, their imports, and sources."""
    read = [(str(source.path), source.digest) for source in compiled.compilation.sources]
    return MadeFrom(lambda: chain(read, snapshot.files()), snapshot.trees())


class ExtraPaths(NamedTuple):
    """Paths that need watches of their own."""

    files: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


class Survey(NamedTuple):
    """Metadata of all files at one moment."""

    named: Signature
    """Files that the settings name."""
    more: Signature
    """Other files that the graph was made from: hidden files, and files elsewhere."""
    beyond: ExtraPaths


class WatchRoots(NamedTuple):
    """The paths to watch for the files that the settings name."""

    main: str | None
    """The directory that watchdog watches recursively; None while it does not exist."""
    inode: int
    """Identifies the directory: another one may take its place."""
    trees: tuple[str, ...]
    """Other directories to watch recursively."""
    files: tuple[str, ...]
    """Names outside `main`: files elsewhere, and directories or links that may be replaced as a whole."""


class ConfigurationFiles(NamedTuple):
    """The directories and files of the configuration."""

    trees: tuple[Path, ...]
    """Directories with all below; the states directory is first."""
    files: tuple[Path, ...]
    """Single files."""

    @classmethod
    def of(cls, settings: Settings, config: Path) -> ConfigurationFiles:
        """Return the files that the settings name, and the settings file itself."""
        return cls(
            tuple(filter(None, (settings.states, settings.pillar, settings.resources))),
            tuple(filter(None, (config, settings.grains_file, *files_of(settings.plugins)))),
        )

    def roots(self) -> dict[str, bool]:
        """Return the directories to watch -> whether recursively. Links are resolved; each place is listed once."""
        trees = {os.path.realpath(tree) for tree in self.trees}
        singles = {os.path.realpath(file.parent) for file in self.files}
        trees |= {single for single in singles if _holds_only(single, trees)}
        wanted = {tree: True for tree in trees if not inside(tree, trees - {tree})}
        wanted.update({single: False for single in singles if not inside(single, trees)})
        # unlike the method of Path, os.path.isdir never raises
        return {root: recursive for root, recursive in wanted.items() if os.path.isdir(root)}  # noqa: PTH112

    def main(self) -> str | None:
        """Return the directory for watchdog: the outermost one with the states; None while it does not exist."""
        states = os.path.realpath(self.trees[0])
        return next((root for root, recursive in self.roots().items() if recursive and inside(states, {root})), None)

    def reach(self) -> WatchRoots:
        """Return the paths to watch now."""
        main = self.main()
        covered = {main} if main else set()
        trees = tuple(str(tree) for tree in self.trees if not inside(os.path.realpath(tree), covered))
        names = (*self.files, *self.trees)
        return WatchRoots(
            main,
            _inode(main),
            trees,
            tuple(str(path) for path in names if not inside(os.path.realpath(path.parent), covered)),
        )

    def compare(self, before: Survey, made: MadeFrom, following: bool) -> tuple[Survey, list[str]]:
        """Return the present metadata, and the paths that have changed.

        `following`: the files in `made` are new, and files that are seen for the first time count as unchanged.
        """
        now = self.survey(made)
        more = differences(before.more, now.more)
        if unseen := more - before.more.keys():  # seen for the first time: not necessarily changed
            more -= made.unchanged(unseen, following)
        return now, sorted(differences(before.named, now.named) | more)

    def survey(self, made: MadeFrom) -> Survey:
        """Return the present metadata of all files."""
        found = self.signature()
        return Survey(found, _more(made, found), self._beyond(made))

    def signature(self) -> Signature:
        """Return the present metadata of the files that the settings name."""
        found: dict[str, tuple[int, ...]] = {}
        for file in self.files:
            found.update(_entry(str(file)))
        for tree in self.trees:
            found.update(_entry(str(tree)))
            found.update(_walk(str(tree), set()))
        return found

    def _beyond(self, made: MadeFrom) -> ExtraPaths:
        """Return the paths in `made` that the watch of the main directory does not reach: behind links or elsewhere."""
        main = self.main()
        if main is None:
            return ExtraPaths()
        reached: dict[str, bool] = {}

        def within(directory: str) -> bool:
            if directory not in reached:
                reached[directory] = inside(os.path.realpath(directory), {main})
            return reached[directory]

        files = {
            path
            for path, _ in made.files()
            if not within(os.path.dirname(path)) or (os.path.islink(path) and not within(path))  # noqa: PTH114, PTH120
        }
        return ExtraPaths(tuple(sorted(files)), tuple(directory for directory in made.trees if not within(directory)))


def _more(made: MadeFrom, found: Signature) -> Signature:
    """Return the metadata of the paths in `made` that `found` does not contain."""
    more: dict[str, tuple[int, ...]] = {}
    for directory in made.trees:
        more.update(each for each in _walk(directory, set(), hidden=True) if each[0] not in found)
    for path, _ in made.files():
        if path not in found and path not in more:
            more.update(_entry(path))
    return more


def _holds(path: str, digest: str) -> bool:
    """Return whether a file still has the content with this digest."""
    try:
        if (info := look(path)) is not None and info.st_size > FILE:
            return digest == large(looks(info))
        return digest == digest_of(paths.read(absolute(path)))
    except (OSError, HoldfastError):
        return False


def differences(before: Signature, after: Signature) -> set[str]:
    """Return the paths whose metadata differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _holds_only(directory: str, trees: set[str]) -> bool:
    """Return whether the directory contains no directories but these trees.

    Watching all of it then costs nothing more.
    """
    if not any(os.path.dirname(tree) == directory for tree in trees):  # noqa: PTH120 - text is faster
        return False
    try:
        with os.scandir(directory) as entries:
            return all(entry.path in trees or not entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:
        return False


def _inode(path: str | None) -> int:
    """Return a number that identifies a directory among others in its place; 0 if there is none."""
    try:
        return os.stat(path).st_ino if path is not None else 0  # noqa: PTH116 - text is faster
    except OSError:
        return 0


def inside(path: str, roots: Iterable[str]) -> bool:
    """Return whether the path is one of these or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _walk(directory: str, seen: set[tuple[int, int]], *, hidden: bool = False) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the metadata of everything below a directory. Symbolic links are followed, each directory is read once.

    Hidden entries, caches and backups are left out unless `hidden`. Directories that an untrusted user could change are
    left out: the agent uses nothing in them, and they may have any number of entries.
    """
    for entry in _entries(directory, seen):
        if not hidden and (entry.name.startswith(".") or entry.name == "__pycache__" or entry.name.endswith("~")):
            continue
        path = f"{directory}/{entry.name}"
        try:
            now = look(path) if entry.is_symlink() else entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield from _shown(path, now)
        if now is not None and stat.S_ISDIR(now.st_mode):
            yield from _walk(path, seen, hidden=hidden)


def _entries(directory: str, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none if it was seen, is not readable, or an untrusted user could change it.

    Raises `OSError` for a reached limit.
    """
    try:
        found = paths.directory(absolute(directory))
        if found.holders:
            return []
        info, entries = found.info, list(os.scandir(found.real))
    except (OSError, paths.Unsafe) as error:
        if isinstance(error, OSError) and error.errno in SHORTAGE:
            raise
        return []
    if (info.st_dev, info.st_ino) in seen:
        return []
    seen.add((info.st_dev, info.st_ino))
    return entries


def _entry(path: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the metadata of one path; nothing if it does not exist."""
    yield from _shown(path, look(path))


def _shown(path: str, info: os.stat_result | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the metadata that shows a change; for a directory, changes of its entries do not count."""
    if info is not None:
        content = () if stat.S_ISDIR(info.st_mode) else (info.st_mtime_ns, info.st_ctime_ns, info.st_size)
        yield path, (info.st_mode, info.st_uid, info.st_gid, info.st_ino, *content)
