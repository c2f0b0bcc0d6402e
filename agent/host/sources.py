"""The content behind the URLs that states name as `source`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.agent.host.downloads import Downloads, ProgressCallback, silent
from holdfast.agent.host.source_snapshot import OpenedSource, SnapshotBuilder, SourceKey, SourceSnapshot
from holdfast.agent.host.source_store import FILE, SourceStore
from holdfast.resources import paths
from holdfast.resources.downloads import (
    Digest,
    DownloadBounds,
    demand_digest,
    digests,
    slices,
)
from holdfast.resources.errors import Permanent, refused_call
from holdfast.resources.paths.handle import LIMIT, Handle, read_whole
from holdfast.resources.paths.place import Place
from holdfast.states.data import Call
from holdfast.states.source.files import looks
from holdfast.states.source.hostfiles import look

LARGE = 1 << 20
"""Bytes above which a local file is read in a thread."""
TREE = ("salt://", "tree://")
REMOTE = ("http://", "https://")


class Sources:
    """Reads sources; `states` is the directory to which `salt://` and `tree://` refer.

    `blocking` runs calls that wait for the disk, `downloads` fetches from servers. With a snapshot, files of the states
    directory are read as they were when the states were compiled; without one (one-shot runs) they are read live.
    """

    def __init__(self, states: Path, blocking: Callable[..., Any], downloads: Downloads) -> None:
        self._blocking, self._downloads = blocking, downloads
        self.states = states
        self.snapshot: SourceSnapshot | None = None
        self._stale: set[str] | None = None
        """Paths that may have changed since the snapshot; None means all."""

    @property
    def states(self) -> Path:
        """The states directory; may be replaced."""
        return Path(self._states)

    @states.setter
    def states(self, directory: Path) -> None:
        self._states = os.path.abspath(directory)  # noqa: PTH100 - a string is needed

    # -- snapshots ----------------------------------------------------------------------------------------------

    def touched(self, changed: Iterable[str] | None) -> None:
        """Record paths that may have changed (None: all); the next snapshot reads them again."""
        self._stale = None if changed is None or self._stale is None else self._stale.union(changed)

    @asynccontextmanager
    async def taken_over(
        self, calls: Iterable[Call], states: Path, store: SourceStore
    ) -> AsyncIterator[SourceSnapshot]:
        """Use a new snapshot of the sources of these calls from now on; restore the old one if the body raises."""
        before, stale, self._stale = self.snapshot, self._stale, set()
        root = os.path.abspath(states)  # noqa: PTH100 - as above
        editor = SnapshotBuilder(root, store, before, stale, opened)
        try:
            self.snapshot = snapshot = await self._blocking(editor.snapshot, calls, partial(_key, root))
            yield snapshot
        except BaseException:
            self.snapshot = before
            self.touched(None)
            raise
        pinned = before.pins.keys() if before else ()
        if (snapshot.anew or pinned != snapshot.pins.keys()) and store.drop(
            {pin.digest for pin in list(snapshot.pins.values())}
        ):
            with suppress(OSError):  # tried again with the next snapshot
                await self._blocking(store.tidy)

    # -- reading -----------------------------------------------------------------------------------------------

    def local(self, url: str) -> str | None:
        """Return the path of the file behind a URL; it need not exist. None if the URL is not on this host.

        Raises `Permanent` for a URL that leads out of the states directory or has an unknown form.
        """
        return local(self._states, url)

    def outside(self, url: str) -> str | None:
        """Return the path of a source that is on this host but outside the states directory, else None."""
        path = self.local(url)
        return path if path is not None and _below(self._states, path) == path else None

    async def read(
        self,
        url: str,
        *,
        user: str = "",
        trusted: bool = False,
        digest: Digest | None = None,
        tell: ProgressCallback = silent,
    ) -> bytes:
        """Return the content of a source, for the state `user`.

        Raises `WrongDigest` if it does not have the declared hash, `Permanent` if the source does not exist or may not
        be read, `Temporary` if a retry may help, for example when a server does not answer.

        A file of the states directory must be writable by trusted users only; with `trusted`, this applies to any file.
        A file in a directory that a user controls is read only if that user may read it, because others may be able to
        read the file that gets the content.
        """
        path = self.local(url)
        if path is None:
            fetched = await self._downloads.fetch(url, digest, DownloadBounds(size=LIMIT), tell)
            return bytes(await self._blocking(fetched.read))
        reading = partial(self.content, path, user, trusted=trusted or url.startswith(TREE))
        with _named(url, path):
            data = reading() if self._at_hand(path) else bytes(await self._blocking(reading))
        if digest is not None:
            hashing = partial(digests, (data,), (digest.algorithm,))
            demand_digest(url, await self._blocking(hashing) if len(data) > LARGE else hashing(), digest)
        return data

    def _at_hand(self, path: str) -> bool:
        """Return whether a file is read quickly: it is small, and no copy has to be made or read."""
        seen = look(path)
        if seen is not None and seen.st_size > LARGE:
            return False
        return self.snapshot is None or self.snapshot.at_hand(
            SourceKey(_below(self._states, path)), None if seen is None else looks(seen)
        )

    def content(self, path: str, user: str, *, trusted: bool = True) -> bytes:
        """Return the content of a file of this host, for the state `user`. Blocks.

        Raises `OSError` and `HoldfastError`.
        """
        if self.snapshot is None:
            return opened(path, trusted).read()
        return self.snapshot.read(SourceKey(_below(self._states, path)), user, lambda: opened(path, trusted))

    def slices(self, url: str, user: str, *, trusted: bool = False) -> Iterator[bytes]:
        """Yield the content of a source on this host, which may be larger than memory. Blocks.

        Raises as `read` does.
        """
        path = self.local(url)
        if path is None:
            raise Permanent(f"cannot read {url}: it is not on this host")
        large: list[Handle] = []
        trusted = trusted or url.startswith(TREE)

        def live() -> OpenedSource:
            handle, info = _checked(path, trusted=trusted)
            if info.st_size <= FILE:
                return _read_whole(handle, info, path)
            return OpenedSource(partial(_later, large, handle), *_described(info))

        with _named(url, path):
            key = SourceKey(_below(self._states, path))
            data = live().read() if self.snapshot is None else self.snapshot.read(key, user, live)
            if not large:
                yield data
            for handle in large:
                yield from slices(handle)

    def view(self, url: str, name: str, read: Callable[[str], bytes], user: str) -> bytes:
        """Return the result of `read` for the path behind a URL. Blocks.

        Raises what `read` raises, and `Permanent` if the URL is not on this host.
        """
        path = self.local(url)
        if path is None:
            raise Permanent(f"cannot read {url}: it is not on this host")
        if self.snapshot is None:
            return read(path)
        return self.snapshot.read(
            SourceKey(_below(self._states, path), name), user, lambda: OpenedSource(lambda: read(path))
        )


def local(states: str, url: str) -> str | None:
    """Return the path of the file behind a URL: see `Sources.local`."""
    if url.startswith("/"):
        return url
    if url.startswith("file://"):
        return url.removeprefix("file://")
    if url.startswith(TREE):
        inside = url.partition("://")[2].partition("?")[0].lstrip("/")
        path = os.path.normpath(os.path.join(states, inside))  # noqa: PTH118 - a string is needed
        if not path.startswith(states.rstrip("/") + "/"):
            raise Permanent(f"cannot read {url}: it leads out of the states directory {states}")
        return path
    if url.startswith(REMOTE):
        return None
    raise Permanent(f"cannot read {url}: write salt://, file://, http://, https:// or an absolute path")


def _below(states: str, path: str) -> str:
    """Return a path relative to the states directory if it is below that, else unchanged."""
    return path.removeprefix(states.rstrip("/") + "/")


def _key(states: str, url: str) -> SourceKey | None:
    """Return the key of a URL in a snapshot.

    None if it is not on this host or invalid, which its state reports when it runs.
    """
    try:
        path = local(states, url)
    except Permanent:
        return None
    return None if path is None else SourceKey(_below(states, path))


def opened(path: str, trusted: bool) -> OpenedSource:
    """Return an opened file.

    With `trusted` only trusted users may be able to write the file; else a file that a user may have placed must be
    readable for that user.

    Raises `OSError`, `Permanent` and `Unsafe`.
    """
    return _read_whole(*_checked(path, trusted=trusted), path)


def _checked(path: str, *, trusted: bool) -> tuple[Handle, os.stat_result]:
    place = paths.at(path, follow=True)
    handle, info = place.open()
    if trusted:
        paths.demand_trusted(place, info)
    else:
        place.demand_readable(info)
    return handle, info


def _read_whole(handle: Handle, info: os.stat_result, path: str) -> OpenedSource:
    return OpenedSource(lambda: read_whole(handle.fd, info, LIMIT, path), *_described(info))


def _later(large: list[Handle], handle: Handle) -> bytes:
    """Note a file that is read in slices instead."""
    large.append(handle)
    return b""


def _described(info: os.stat_result) -> tuple[int, tuple[int, ...], int]:
    return info.st_size, looks(info), max(info.st_mtime_ns, info.st_ctime_ns)


@contextmanager
def _named(url: str, path: str) -> Iterator[None]:
    """Name the URL in the errors of the file behind it."""
    try:
        yield
    except OSError as error:
        where = "" if path == url else f"{path}: "
        raise refused_call(f"cannot read {url}: {where}{error.strerror}", error) from None
    except Permanent as error:
        raise Permanent(f"cannot read {url}: {str(error).removeprefix(f'cannot read {path}: ')}") from None


async def read(place: Place, blocking: Callable[..., Any]) -> bytes:
    """Return the content of a file that may be published, in a thread if it is large.

    Raises `OSError`, `Permanent` and `Unsafe`.
    """
    handle, info = place.open()
    place.demand_readable(info)

    def all_of_it() -> bytes:
        return read_whole(handle.fd, info, LIMIT, place.path)

    return bytes(await blocking(all_of_it)) if info.st_size > LARGE else all_of_it()
