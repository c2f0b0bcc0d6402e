"""What the configuration consists of, and what all of it looks like at one moment: comparing two of these tells what has changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from holdfast.agent.host.edition import Edition
from holdfast.agent.host.kept import FILE, digest_of, large
from holdfast.agent.settings import Settings
from holdfast.agent.tree import Compiled
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.hostfiles import absolute, look
from holdfast.states.source import looks

SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOMEM})
"""What the kernel says when a limit is reached: nothing is said of the file."""
Signature = Mapping[str, tuple[int, ...]]
"""Path -> what changes when the file does."""


class MadeFrom(NamedTuple):
    """What the running graph was made from."""

    files: Callable[[], Iterable[tuple[str, str]]]
    """Gives all files, each with its digest; they may become more while it runs."""
    trees: Sequence[str] = ()
    """Directories that count with all that is in them, hidden entries too."""

    def unchanged(self, seen: Collection[str], others: bool) -> set[str]:
        """Those among the paths seen that still are what the graph was made from; with `others` also what it was not made from."""
        known = {path: digest for path, digest in self.files() if path in seen}
        same = {path for path, digest in known.items() if _holds(path, digest)}
        return same | {path for path in seen if others and path not in known}


def made_from(compiled: Compiled, edition: Edition) -> MadeFrom:
    """All files that a graph was made from: state files, what they import, and sources."""
    read = [(str(source.path), source.digest) for source in compiled.compilation.sources]
    return MadeFrom(lambda: chain(read, edition.files()), edition.trees())


class Beyond(NamedTuple):
    """What is watched by itself."""

    files: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


class Survey(NamedTuple):
    """What everything looks like at one moment."""

    named: Signature
    """What settings name."""
    more: Signature
    """What the graph was made from besides: hidden files, and what lies elsewhere."""
    beyond: Beyond


class Reach(NamedTuple):
    """What has to be watched for what settings name."""

    main: str | None
    """The directory for watchdog, with all below; None while it does not exist."""
    inode: int
    """What tells that directory from another in its place."""
    trees: tuple[str, ...]
    """Directories elsewhere, with all below."""
    files: tuple[str, ...]
    """Names that are not strictly below it: files elsewhere, and directories or links that may be exchanged as a whole."""


class Watched(NamedTuple):
    """What the configuration consists of."""

    trees: tuple[Path, ...]
    """Directories, with all below; that of the states first."""
    files: tuple[Path, ...]
    """Single files."""

    @classmethod
    def of(cls, settings: Settings, config: Path) -> Watched:
        """What settings name, and the file that they came from."""
        return cls(
            tuple(filter(None, (settings.states, settings.pillar, settings.resources))),
            tuple(filter(None, (config, settings.grains_file))),
        )

    def roots(self) -> dict[str, bool]:
        """Directories to watch -> whether with all below; symbolic links resolved, each place once."""
        trees = {os.path.realpath(tree) for tree in self.trees}
        singles = {os.path.realpath(file.parent) for file in self.files}
        trees |= {single for single in singles if _holds_only(single, trees)}
        wanted = {tree: True for tree in trees if not inside(tree, trees - {tree})}
        wanted.update({single: False for single in singles if not inside(single, trees)})
        return {root: recursive for root, recursive in wanted.items() if os.path.isdir(root)}  # noqa: PTH112 - never raises

    def main(self) -> str | None:
        """The one directory for watchdog, with all below: the outermost that has the states; None while it does not exist."""
        states = os.path.realpath(self.trees[0])
        return next((root for root, recursive in self.roots().items() if recursive and inside(states, {root})), None)

    def reach(self) -> Reach:
        """What has to be watched now."""
        main = self.main()
        covered = {main} if main else set()
        trees = tuple(str(tree) for tree in self.trees if not inside(os.path.realpath(tree), covered))
        names = (*self.files, *self.trees)
        return Reach(
            main,
            _inode(main),
            trees,
            tuple(str(path) for path in names if not inside(os.path.realpath(path.parent), covered)),
        )

    def compare(self, before: Survey, made: MadeFrom, following: bool) -> tuple[Survey, list[str]]:
        """All of it, as it is now, and what has changed. `following`: what it was made from is new, and what is seen for the first time has not changed."""
        now = self.survey(made)
        more = differences(before.more, now.more)
        if unseen := more - before.more.keys():  # looked at for the first time: it need not have changed
            more -= made.unchanged(unseen, following)
        return now, sorted(differences(before.named, now.named) | more)

    def survey(self, made: MadeFrom) -> Survey:
        """All of it, as it is now."""
        found = self.signature()
        return Survey(found, _more(made, found), self._beyond(made))

    def signature(self) -> Signature:
        """What all files look like now."""
        found: dict[str, tuple[int, ...]] = {}
        for file in self.files:
            found.update(_entry(str(file)))
        for tree in self.trees:
            found.update(_entry(str(tree)))
            found.update(_walk(str(tree), set()))
        return found

    def _beyond(self, made: MadeFrom) -> Beyond:
        """What the graph was made from and the watch of the main directory does not reach: behind links, or elsewhere."""
        main = self.main()
        if main is None:
            return Beyond()
        reached: dict[str, bool] = {}

        def within(directory: str) -> bool:
            if directory not in reached:
                reached[directory] = inside(os.path.realpath(directory), {main})
            return reached[directory]

        files = {
            path
            for path, _ in made.files()
            if not within(os.path.dirname(path)) or (os.path.islink(path) and not within(path))  # noqa: PTH114, PTH120 - as above
        }
        return Beyond(tuple(sorted(files)), tuple(directory for directory in made.trees if not within(directory)))


def _more(made: MadeFrom, found: Signature) -> Signature:
    """What the graph was made from and is not found yet."""
    more: dict[str, tuple[int, ...]] = {}
    for directory in made.trees:
        more.update(each for each in _walk(directory, set(), hidden=True) if each[0] not in found)
    for path, _ in made.files():
        if path not in found and path not in more:
            more.update(_entry(path))
    return more


def _holds(path: str, digest: str) -> bool:
    """Whether a file still is what it was when this was its digest."""
    try:
        if (info := look(path)) is not None and info.st_size > FILE:
            return digest == large(looks(info))
        return digest == digest_of(paths.read(absolute(path)))
    except (OSError, HoldfastError):
        return False


def differences(before: Signature, after: Signature) -> set[str]:
    """Paths that do not look the same."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _holds_only(directory: str, trees: set[str]) -> bool:
    """The directory holds some of our trees and no other directory: watching all of it costs nothing more."""
    if not any(os.path.dirname(tree) == directory for tree in trees):  # noqa: PTH120 - text is faster
        return False
    try:
        with os.scandir(directory) as entries:
            return all(entry.path in trees or not entry.is_dir(follow_symlinks=False) for entry in entries)
    except OSError:
        return False


def _inode(path: str | None) -> int:
    """What tells one directory from another in its place; 0 when there is none."""
    try:
        return os.stat(path).st_ino if path is not None else 0  # noqa: PTH116 - text is faster
    except OSError:
        return 0


def inside(path: str, roots: Iterable[str]) -> bool:
    """The path is one of these or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _walk(directory: str, seen: set[tuple[int, int]], *, hidden: bool = False) -> Iterator[tuple[str, tuple[int, ...]]]:
    """All below a directory; symbolic links are followed, each directory once; without `hidden` no hidden entries, caches and backups.

    What an untrusted user could change is not looked through, for nothing in it is used: it may have any number of entries.
    """
    try:
        found = paths.directory(absolute(directory))
        if found.holders:
            return
        info, entries = found.info, list(os.scandir(found.real))
    except (OSError, paths.Unsafe) as error:
        if isinstance(error, OSError) and error.errno in SHORTAGE:
            raise
        return
    if (info.st_dev, info.st_ino) in seen:
        return
    seen.add((info.st_dev, info.st_ino))
    for entry in entries:
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


def _entry(path: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What one path looks like; nothing when there is none."""
    yield from _shown(path, look(path))


def _shown(path: str, info: os.stat_result | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What tells a change; of a directory, when only its entries change, nothing."""
    if info is not None:
        content = () if stat.S_ISDIR(info.st_mode) else (info.st_mtime_ns, info.st_ctime_ns, info.st_size)
        yield path, (info.st_mode, info.st_uid, info.st_gid, info.st_ino, *content)
