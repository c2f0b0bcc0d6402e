"""The sources as they were when the states were compiled: their digests, and copies of their content.

New content of a source is a change of the states: it counts when the states are taken over anew, together with the state files. Until then
each reader gets what the graph was compiled from: the live file while that still is the same, else the copy.

What states declare as their sources (`traits.FromSources`) is looked at when they are compiled. What else is read among the states (what a
template imports, what own kinds read) is found out when it is read for the first time, and belongs to the edition from then on.

Sources outside of the states directory are read as they are. Where a state cannot look at drift itself, because it is an action, a change of
one is still a change of the states.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.agent.host.kept import FILE, Store, digest_of, large
from holdfast.resources.contract import acts
from holdfast.resources.errors import HoldfastError, Temporary
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.traits import Drawn, FromSources
from holdfast.states.data import Call
from holdfast.states.source import STEADY

NOTHING = "nothing"
"""In place of a digest: there was no such file."""


class Key(NamedTuple):
    """What was read: a path below the states directory (an absolute one: outside), and what of it (empty: its content)."""

    path: str
    view: str = ""


@dataclass(slots=True)
class Pin:
    """What a source was when it was read."""

    digest: str
    looks: tuple[int, ...] | None = None
    """What the file looked like, if any later change is sure to show."""
    owner: str = ""
    """One of the states that declare it as their source."""
    whole: bool = False
    """It is a directory that is copied with all that is in it."""


class Live(NamedTuple):
    """A source as it is now, opened and not read yet."""

    read: Callable[[], bytes]
    size: int = 0
    looks: tuple[int, ...] | None = None
    """None for what is no single file."""
    changed: int = 0
    """Time of its last change, nanoseconds."""


Open = Callable[[], Live]
"""Opens a source as it is now; raises `OSError` and `HoldfastError`."""


@dataclass(slots=True)
class Edition:
    """One of them. It is added to when a source is read for the first time; what is in it stays."""

    root: str
    """The states directory."""
    store: Store
    pins: dict[Key, Pin] = field(default_factory=dict)
    found: dict[str, set[Key]] = field(default_factory=dict)
    """Identity -> what its runs have read, but for what it alone declares."""
    drawn: dict[str, tuple[FromSources, tuple[Key, ...]]] = field(default_factory=dict)
    """Identity -> the resource, and what it declares as its sources."""
    anew: frozenset[str] = frozenset()
    """States whose sources are not what they were in the edition before."""

    closed: bool = False
    """What is not in it is read as it is."""

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, key: Key, user: str, live: Open) -> bytes:
        """A source as it was when the states were compiled, for the state `user`. Raises what `live` raises, `FileNotFoundError`, and `Temporary` for what was not kept."""
        pin = self.pins.get(key)
        if outside(key) or (pin is None and self.closed):
            return self._as_it_is(pin, live())
        if pin is None or pin.owner != user:
            self.found.setdefault(user, set()).add(key)
        try:
            now = live()
            if pin is not None and pin.looks is not None and pin.looks == now.looks:
                return now.read()
            data, digest = self._content(now)
        except (OSError, HoldfastError) as error:
            if pin is None and isinstance(error, ABSENT):
                self.pins[key] = Pin(NOTHING)
            kept = None if pin is None else self.store.get(pin.digest)
            if kept is None:
                raise
            return kept
        if pin is None:
            self.pins[key] = Pin(digest, steady(now))  # before the copy is made, which without it counts as not needed
            self.store.put(digest, data)
        elif pin.digest == digest:
            pin.looks = steady(now)
        else:
            return self._kept(key, pin)
        return now.read() if data is None else data

    def at_hand(self, key: Key, now: tuple[int, ...] | None) -> bool:
        """Whether a source that looks so now (None: there is none) is read without its copy, which takes long to make and to read."""
        if outside(key):
            return True
        pin = self.pins.get(key)
        return self.closed if pin is None else now == pin.looks and (now is not None or pin.digest == NOTHING)

    def _as_it_is(self, pin: Pin | None, now: Live) -> bytes:
        """The present content, which an action is a version of."""
        if pin is None:
            return now.read()
        data, pin.digest = self._content(now)
        pin.looks = steady(now)
        return now.read() if data is None else data

    def version(self, identity: str) -> str:
        """What the sources of an action contain; empty for what has none."""
        resource, keys = self.drawn.get(identity, (None, ()))
        if resource is None or not acts(resource):
            return ""
        return " ".join(self.pins[key].digest for key in keys if key in self.pins)

    def path(self, key: Key) -> str:
        """Where a source is."""
        return key.path if outside(key) else f"{self.root}/{key.path}"

    def files(self) -> Iterator[tuple[str, str]]:
        """The paths of all files that are in it, and their digests."""
        return ((self.path(key), pin.digest) for key, pin in list(self.pins.items()) if not key.view)

    def trees(self) -> list[str]:
        """The paths of all directories that are copied as a whole."""
        return list({self.path(key): None for key, pin in self.pins.items() if pin.whole})

    def _kept(self, key: Key, pin: Pin) -> bytes:
        if pin.digest == NOTHING:
            raise FileNotFoundError(errno.ENOENT, "it was not there when the states were compiled", self.path(key))
        kept = self.store.get(pin.digest)
        if kept is None:
            raise Temporary(
                f"cannot use {self.path(key)}: it has changed since the states were compiled, and what it held then was not kept"
            )
        return kept

    # -- keeping -----------------------------------------------------------------------------------------------

    def look(self, live: Open, old: Pin | None) -> Pin | None:
        """What a source is now, a copy kept; None when that cannot be said. `old` is what it was before: one that looks the same is the same."""
        try:
            now = live()
            same = (
                old is not None
                and now.looks is not None
                and old.looks == now.looks
                and not self.store.lacks(old.digest)
            )
            if same:
                return old
            data, digest = self._content(now)
            self.store.put(digest, data)
            return Pin(digest, steady(now))
        except ABSENT:
            return Pin(NOTHING)
        except (OSError, HoldfastError):
            return None

    @staticmethod
    def _content(now: Live) -> tuple[bytes | None, str]:
        """The content, if it is not too large to be kept, and what tells it from another."""
        if now.size > FILE:
            return None, large(now.looks)
        data = now.read()
        return data, digest_of(data)


def outside(key: Key) -> bool:
    """It is not below the states directory."""
    return key.path.startswith("/")


def steady(now: Live) -> tuple[int, ...] | None:
    """What a file looks like, if any later change of it is sure to show."""
    return now.looks if time.time_ns() - now.changed > STEADY else None


def with_parents(changed: Iterable[str]) -> set[str]:
    """Paths, and the directories that they lie in: what a directory holds may have changed, too."""
    found = set(changed)
    for path in tuple(found):
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


class Editor:
    """Makes the next edition. `opened` opens the file of a key as it is now; `stale` are paths that may have changed, None: all. Blocks."""

    def __init__(
        self,
        root: str,
        store: Store,
        before: Edition | None,
        stale: Iterable[str] | None,
        opened: Callable[[str, bool], Live],
    ) -> None:
        self._edition, self._before = Edition(root, store), before
        self._opened = opened
        moved = before is None or before.root != root
        self._stale = None if moved or stale is None else with_parents(stale)
        self._suspect = {path.removeprefix(f"{root}/") for path in self._stale or ()}
        """Those, as keys have them."""
        self._changed: set[Key] = set()

    def edition(self, calls: Iterable[Call], local: Callable[[str], Key | None]) -> Edition:
        """The edition for these calls; `local` says what a URL means, None: nothing on this host."""
        made, anew, declared = self._edition, set(), set()
        before = self._before
        known = before.drawn if before is not None and self._stale is not None else {}
        for call in calls:
            resource = call.resource
            declared.add(call.identity)
            if not isinstance(resource, FromSources):
                continue
            drawn = known.get(call.identity)
            if drawn is None or drawn[0] is not resource or not self._carry(drawn[1]):
                keys = [key for each in resource.draws() for key in self._drawn(each, call, local)]
                drawn = (resource, tuple(keys))
            if drawn[1]:
                made.drawn[call.identity] = drawn
            if self._changed and not self._changed.isdisjoint(drawn[1]):
                anew.add(call.identity)
        for identity, found in list(
            before.found.items() if before else ()
        ):  # states are being run meanwhile, and add to it
            if identity in declared and identity not in anew:
                read = set(found)
                for key in read:
                    self._pin(key, None, "")
                if self._changed.isdisjoint(read):
                    made.found[identity] = read
                else:
                    anew.add(identity)
        made.anew = frozenset(anew)
        return made

    def _carry(self, keys: tuple[Key, ...]) -> bool:
        """Take sources over from the edition before; whether all of them could be."""
        old, new = self._before.pins if self._before else {}, self._edition.pins
        for key in keys:
            pin = old.get(key)
            if pin is None or key.path in self._suspect:
                return False
            new[key] = pin
        return True

    def _drawn(self, drawn: Drawn, call: Call, local: Callable[[str], Key | None]) -> Iterator[Key]:
        """What a state declares as one of its sources, looked at."""
        key = local(drawn.url)
        if key is None or (outside(key) and not acts(call.resource)):
            return
        key = Key(key.path, drawn.view)
        self._pin(key, drawn, call.identity)
        yield key
        pin = self._edition.pins.get(key)
        if drawn.inside is None or pin is None:
            return
        pin.whole = True
        listing = self._edition.store.get(pin.digest)
        for name in drawn.inside(listing) if listing is not None else ():
            below = Key(os.path.normpath(f"{key.path}/{name}"))
            self._pin(below, None, call.identity)
            yield below

    def _pin(self, key: Key, drawn: Drawn | None, owner: str) -> None:
        """Take a source over from the edition before, or look at it."""
        if key in self._edition.pins:
            return
        old = self._before.pins.get(key) if self._before else None
        path = self._edition.path(key)
        if old is not None and self._before is not None and self._stale is not None and key.path not in self._suspect:
            pin: Pin | None = old
        elif key.view and (drawn is None or drawn.read is None):
            pin = None  # nobody knows how it was read
        elif key.view and drawn is not None and drawn.read is not None:
            read = drawn.read
            pin = self._edition.look(lambda: Live(lambda: read(path)), None)
        else:
            pin = self._edition.look(lambda: self._opened(path, not outside(key)), old)
        if pin is not None:
            self._edition.pins[key] = pin
            pin.owner = owner
        if self._before is not None and (pin is None or old is None or pin.digest != old.digest):
            self._changed.add(key)
