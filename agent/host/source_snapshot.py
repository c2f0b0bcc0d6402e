"""Snapshots of sources, taken when the states are compiled: digests, and copies of the content.

New content of a source is a change of the states. It takes effect when the states are compiled again, together with
changed state files. Until then each reader gets the content that the graph was compiled from: from the live file while
that is unchanged, else from the copy.

Sources that states declare (`traits.FromSources`) are read when the states are compiled. Other files of the states
directory (imports of templates, reads of operators' kinds) join the snapshot when they are first read.

Sources outside the states directory are read live. An action cannot check for drift, so for an action a change of such
a source still counts as a change of the states.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.agent.host.source_store import FILE, SourceStore, digest_of, large
from holdfast.resources.contract import acts
from holdfast.resources.errors import HoldfastError, Temporary
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.traits import FromSources, UsedSource
from holdfast.states.data import Call
from holdfast.states.source.files import STEADY

NOTHING = "nothing"
"""Stands in for the digest of a file that does not exist."""


class SourceKey(NamedTuple):
    """A path below the states directory (or an absolute path outside), and the view of it (empty: the content)."""

    path: str
    view: str = ""


@dataclass(slots=True, eq=False, repr=False)
class SourceVersion:
    """A source as it was when it was read."""

    digest: str
    metadata: tuple[int, ...] | None = None
    """The file's metadata, if it is certain to reveal any later change."""
    owner: str = ""
    """One of the states that declare the source."""
    whole: bool = False
    """Whether the source is a directory that is copied with all its content."""


class OpenedSource(NamedTuple):
    """A source as it is now, opened but not read."""

    read: Callable[[], bytes]
    size: int = 0
    metadata: tuple[int, ...] | None = None
    """None unless the source is a single file."""
    changed: int = 0
    """Time of the last change, nanoseconds."""


Open = Callable[[], OpenedSource]
"""Opens a source as it is now; raises `OSError` and `HoldfastError`."""


@dataclass(slots=True, eq=False, repr=False)
class SourceSnapshot:
    """One snapshot. Sources are added when they are first read; existing entries do not change."""

    root: str
    """The states directory."""
    store: SourceStore
    pins: dict[SourceKey, SourceVersion] = field(default_factory=dict)
    found: dict[str, set[SourceKey]] = field(default_factory=dict)
    """Identity -> sources that its runs have read, without those that only it declares."""
    drawn: dict[str, tuple[FromSources, tuple[SourceKey, ...]]] = field(default_factory=dict)
    """Identity -> the resource, and the sources that it declares."""
    anew: frozenset[str] = frozenset()
    """States whose sources differ from the previous snapshot."""

    closed: bool = False
    """Whether sources that are not in the snapshot are read live."""

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, key: SourceKey, user: str, live: Open) -> bytes:
        """Return a source as it was when the states were compiled, for the state `user`.

        Raises what `live` raises, `FileNotFoundError`, and `Temporary` if the content was not kept.
        """
        pin = self.pins.get(key)
        if outside(key) or (pin is None and self.closed):
            return self._as_it_is(pin, live())
        if pin is None or pin.owner != user:
            self.found.setdefault(user, set()).add(key)
        return self._read_first(key, live) if pin is None else self._read_again(key, pin, live)

    def _read_first(self, key: SourceKey, live: Open) -> bytes:
        """Return the present content of a source that is not in the snapshot yet, which is added."""
        try:
            now = live()
            data, digest = self._content(now)
        except ABSENT:
            self.pins[key] = SourceVersion(NOTHING)
            raise
        # First: otherwise the copy counts as not needed.
        self.pins[key] = SourceVersion(digest, steady(now))
        self.store.put(digest, data)
        return now.read() if data is None else data

    def _read_again(self, key: SourceKey, pin: SourceVersion, live: Open) -> bytes:
        """Return the content of a source in the snapshot: as it is now if it has not changed, else the copy."""
        try:
            now = live()
            if pin.metadata is not None and pin.metadata == now.metadata:
                return now.read()
            data, digest = self._content(now)
        except (OSError, HoldfastError):
            kept = self.store.get(pin.digest)
            if kept is None:
                raise
            return kept
        if pin.digest != digest:
            return self._kept(key, pin)
        pin.metadata = steady(now)
        return now.read() if data is None else data

    def at_hand(self, key: SourceKey, now: tuple[int, ...] | None) -> bool:
        """Return whether a source with this metadata (None: missing) is read without making a copy, which is slow."""
        if outside(key):
            return True
        pin = self.pins.get(key)
        return self.closed if pin is None else now == pin.metadata and (now is not None or pin.digest == NOTHING)

    def _as_it_is(self, pin: SourceVersion | None, now: OpenedSource) -> bytes:
        """Return the present content, for an action, whose version includes the content."""
        if pin is None:
            return now.read()
        data, pin.digest = self._content(now)
        pin.metadata = steady(now)
        return now.read() if data is None else data

    def version(self, identity: str) -> str:
        """Return the digests of the sources of an action; empty if it has none."""
        resource, keys = self.drawn.get(identity, (None, ()))
        if resource is None or not acts(resource):
            return ""
        return " ".join(self.pins[key].digest for key in keys if key in self.pins)

    def path(self, key: SourceKey) -> str:
        """Return the path of a source."""
        return key.path if outside(key) else f"{self.root}/{key.path}"

    def files(self) -> Iterator[tuple[str, str]]:
        """Return the paths of all files in the snapshot, with their digests."""
        return ((self.path(key), pin.digest) for key, pin in list(self.pins.items()) if not key.view)

    def trees(self) -> list[str]:
        """Return the paths of all directories that are copied as a whole."""
        return list({self.path(key): None for key, pin in self.pins.items() if pin.whole})

    def _kept(self, key: SourceKey, pin: SourceVersion) -> bytes:
        if pin.digest == NOTHING:
            raise FileNotFoundError(errno.ENOENT, "it was not there when the states were compiled", self.path(key))
        kept = self.store.get(pin.digest)
        if kept is None:
            raise Temporary(
                f"cannot use {self.path(key)}: "
                "it has changed since the states were compiled, and its content was not kept"
            )
        return kept

    # -- keeping -----------------------------------------------------------------------------------------------

    def look(self, live: Open, old: SourceVersion | None) -> SourceVersion | None:
        """Return the present version of a source, with a copy kept; None if it cannot be read.

        `old` is the previous version: it is reused if the metadata is unchanged.
        """
        try:
            now = live()
            same = (
                old is not None
                and now.metadata is not None
                and old.metadata == now.metadata
                and not self.store.lacks(old.digest)
            )
            if same:
                return old
            data, digest = self._content(now)
            self.store.put(digest, data)
            return SourceVersion(digest, steady(now))
        except ABSENT:
            return SourceVersion(NOTHING)
        except (OSError, HoldfastError):
            return None

    @staticmethod
    def _content(now: OpenedSource) -> tuple[bytes | None, str]:
        """Return the content, if it is small enough to be kept, and its digest or stand-in."""
        if now.size > FILE:
            return None, large(now.metadata)
        data = now.read()
        return data, digest_of(data)


def outside(key: SourceKey) -> bool:
    """Return whether a source is outside the states directory."""
    return key.path.startswith("/")


def steady(now: OpenedSource) -> tuple[int, ...] | None:
    """Return the metadata of a file, if it is certain to reveal any later change; else None."""
    return now.metadata if time.time_ns() - now.changed > STEADY else None


def with_parents(changed: Iterable[str]) -> set[str]:
    """Return the paths and their directories: views of a directory may have changed, too."""
    found = set(changed)
    for path in tuple(found):
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


class SnapshotBuilder:
    """Builds the next snapshot. Blocks.

    `opened` opens the file of a key as it is now. `stale` are paths that may have changed; None means all.
    """

    def __init__(
        self,
        root: str,
        store: SourceStore,
        before: SourceSnapshot | None,
        stale: Iterable[str] | None,
        opened: Callable[[str, bool], OpenedSource],
    ) -> None:
        self._snapshot, self._before = SourceSnapshot(root, store), before
        self._opened = opened
        moved = before is None or before.root != root
        self._stale = None if moved or stale is None else with_parents(stale)
        self._suspect = {path.removeprefix(f"{root}/") for path in self._stale or ()}
        """`stale` as paths of keys."""
        self._changed: set[SourceKey] = set()

    def snapshot(self, calls: Iterable[Call], local: Callable[[str], SourceKey | None]) -> SourceSnapshot:
        """Return the snapshot for these calls.

        `local` returns the key of a URL, None if the URL is not on this host.
        """
        anew: set[str] = set()
        declared: set[str] = set()
        for call in calls:
            declared.add(call.identity)
            if isinstance(call.resource, FromSources) and self._declare(call, call.resource, local):
                anew.add(call.identity)
        self._carry_found(declared, anew)
        self._snapshot.anew = frozenset(anew)
        return self._snapshot

    def _declare(self, call: Call, resource: FromSources, local: Callable[[str], SourceKey | None]) -> bool:
        """Add the sources that a state declares; return whether one of them has changed."""
        before = self._before
        drawn = before.drawn.get(call.identity) if before is not None and self._stale is not None else None
        if drawn is None or drawn[0] is not resource or not self._carry(drawn[1]):
            keys = [key for each in resource.used_sources() for key in self._drawn(each, call, local)]
            drawn = (resource, tuple(keys))
        if drawn[1]:
            self._snapshot.drawn[call.identity] = drawn
        return bool(self._changed) and not self._changed.isdisjoint(drawn[1])

    def _carry_found(self, declared: set[str], anew: set[str]) -> None:
        """Take over what runs of declared states have read; add states with changed sources to `anew`."""
        before = self._before.found.items() if self._before else ()
        for identity, found in list(before):  # states run meanwhile and add to it
            if identity not in declared or identity in anew:
                continue
            read = set(found)
            for key in read:
                self._pin(key, None, "")
            if self._changed.isdisjoint(read):
                self._snapshot.found[identity] = read
            else:
                anew.add(identity)

    def _carry(self, keys: tuple[SourceKey, ...]) -> bool:
        """Take sources over from the previous snapshot; return whether all of them could be taken."""
        old, new = self._before.pins if self._before else {}, self._snapshot.pins
        for key in keys:
            pin = old.get(key)
            if pin is None or key.path in self._suspect:
                return False
            new[key] = pin
        return True

    def _drawn(self, drawn: UsedSource, call: Call, local: Callable[[str], SourceKey | None]) -> Iterator[SourceKey]:
        """Read one of the sources that a state declares, and yield its keys."""
        key = local(drawn.url)
        if key is None or (outside(key) and not acts(call.resource)):
            return
        key = SourceKey(key.path, drawn.view)
        self._pin(key, drawn, call.identity)
        yield key
        pin = self._snapshot.pins.get(key)
        if drawn.inside is None or pin is None:
            return
        pin.whole = True
        listing = self._snapshot.store.get(pin.digest)
        for name in drawn.inside(listing) if listing is not None else ():
            below = SourceKey(os.path.normpath(f"{key.path}/{name}"))
            self._pin(below, None, call.identity)
            yield below

    def _pin(self, key: SourceKey, drawn: UsedSource | None, owner: str) -> None:
        """Take a source over from the previous snapshot, or read it."""
        if key in self._snapshot.pins:
            return
        old = self._before.pins.get(key) if self._before else None
        if old is not None and self._stale is not None and key.path not in self._suspect:
            pin: SourceVersion | None = old
        else:
            pin = self._present(key, drawn, old)
        if pin is not None:
            self._snapshot.pins[key] = pin
            pin.owner = owner
        if self._before is not None and (pin is None or old is None or pin.digest != old.digest):
            self._changed.add(key)

    def _present(self, key: SourceKey, drawn: UsedSource | None, old: SourceVersion | None) -> SourceVersion | None:
        """Return the present version of a source, read with the view that a state declares.

        None if it cannot be read.
        """
        path = self._snapshot.path(key)
        if not key.view:
            return self._snapshot.look(lambda: self._opened(path, not outside(key)), old)
        if drawn is None or drawn.read is None:
            return None  # the view with which the source was read is unknown
        read = drawn.read
        return self._snapshot.look(lambda: OpenedSource(lambda: read(path)), None)
