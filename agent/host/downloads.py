"""Downloads for all resources: private files on disk, each with the declared hash.

Resources that need the same URL at the same time wait for each other, so that it is transferred once. Transfers have
threads of their own; a slow server delays nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast.resources.downloads import Digest, DownloadBounds, DownloadedFile
from holdfast.resources.errors import Temporary, refused_call

if TYPE_CHECKING:
    from holdfast.agent.host.download_cache import DownloadCache
    from holdfast.agent.host.transfer import Transfer

ProgressCallback = Callable[[str], None]
"""Shows one line about a slow download."""


def silent(_: str) -> None:
    """Show nothing."""


class Downloads:
    """The downloads of one host. `network` runs calls that wait for a server."""

    def __init__(self, state_dir: str, network: Callable[..., Any], *, durable: bool) -> None:
        self._state_dir, self._network, self._durable = state_dir, network, durable
        self._made: DownloadCache | None = None
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        """URL -> its lock, and how many downloads wait for it or have it."""

    @property
    def _cache(self) -> DownloadCache:
        if self._made is None:
            from holdfast.agent.host.download_cache import DownloadCache  # noqa: PLC0415 - few states download

            self._made = DownloadCache(self._state_dir, durable=self._durable)
        return self._made

    async def fetch(
        self, url: str, digest: Digest | None, bounds: DownloadBounds, tell: ProgressCallback, *, keep: bool = True
    ) -> DownloadedFile:
        """Return the content of a URL: from the cache if that is still current, else from the server.

        `keep`: let the cache keep the content for a later call. Raises `Permanent` and `Temporary`.
        """
        from holdfast.agent.host.http_get import target_of  # noqa: PLC0415 - few states download
        from holdfast.agent.host.transfer import Transfer, TransferRequest  # noqa: PLC0415 - the same

        target = target_of(url)
        report = _reporter(target.shown, tell)
        transfer = Transfer(TransferRequest(target, digest, bounds, report))
        async with self._turn(url):
            fetched: DownloadedFile = await self._aborting(transfer, self._fetched, url, target.shown, transfer, keep)
        return fetched

    async def is_current(self, url: str, sha256: str, bounds: DownloadBounds) -> bool:
        """Return whether the server says that its content still has this hash; costs one small request.

        False if it cannot tell. Raises `Permanent` and `Temporary`.
        """
        from holdfast.agent.host.http_get import target_of  # noqa: PLC0415 - few states download
        from holdfast.agent.host.transfer import Transfer, TransferRequest  # noqa: PLC0415 - the same

        target = target_of(url)
        transfer = Transfer(TransferRequest(target, None, bounds, lambda *_: None))
        async with self._turn(url):
            return bool(await self._aborting(transfer, self._compared, url, target.shown, transfer, sha256))

    async def _aborting(self, transfer: Transfer, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call in a thread; if the caller is cancelled, the transfer ends at once."""
        try:
            return await self._network(call, *args)
        except asyncio.CancelledError:
            transfer.abort("the agent has ended it")
            raise

    def _fetched(self, url: str, shown: str, transfer: Transfer, keep: bool) -> DownloadedFile:
        """Fetch a URL. Blocks."""
        try:
            with self._cache.entry(url) as entry:
                transfer.into(entry)
                digests = entry.known.digests or {}
                if entry.handle is None:
                    raise Temporary(f"cannot keep {shown}: its file was removed")
                fetched = DownloadedFile(entry.handle, entry.received, digests["sha256"])
                if keep:
                    entry.used()
                else:
                    entry.drop_content()
                return fetched
        except OSError as error:
            raise refused_call(f"cannot keep {shown}: {error.strerror or error}", error) from None

    def _compared(self, url: str, shown: str, transfer: Transfer, sha256: str) -> bool:
        """Ask whether content is current. Blocks."""
        try:
            with self._cache.entry(url) as entry:
                known = (entry.known.digests or {}).get("sha256") == sha256
                current = known and transfer.is_current(entry.known)
                if current:
                    entry.used()
                return current
        except OSError as error:
            raise refused_call(f"cannot keep {shown}: {error.strerror or error}", error) from None

    @asynccontextmanager
    async def _turn(self, url: str) -> AsyncIterator[None]:
        """Wait until no other download of the URL runs in this process."""
        lock, users = self._turns.get(url, (asyncio.Lock(), 0))
        self._turns[url] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(url)
            if users > 1:
                self._turns[url] = lock, users - 1


def _reporter(shown: str, tell: ProgressCallback) -> Callable[[int, int], None]:
    """Return a function that threads call with the progress."""
    loop = asyncio.get_running_loop()

    def report(received: int, size: int) -> None:
        of_all = f" of {_mebibytes(size)} MiB ({received * 100 // size} %)" if size > 0 else " MiB"
        with suppress(RuntimeError):  # the agent has ended meanwhile
            loop.call_soon_threadsafe(tell, f"{shown}: {_mebibytes(received)}{of_all}")

    return report


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
