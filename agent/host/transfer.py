"""The transfer of one URL into an entry of the download cache: conditional, resumed, and bounded. Runs in a thread."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPResponse
from typing import NamedTuple

from holdfast.agent.host.download_cache import DownloadEntry, KnownContent
from holdfast.agent.host.http_get import BROKEN, HttpGet, HttpTarget
from holdfast.resources.downloads import Digest, DownloadBounds, demand_digest, digests, slices
from holdfast.resources.errors import Permanent, Temporary, refused_call

CHUNK = 1 << 18
"""Most bytes that are read from a connection at once."""
BREAKS = 5
"""Most broken connections in a row, each after some data, until a later attempt continues."""
SECOND = 60.0
"""Seconds after which a Last-Modified distinguishes versions: RFC 9110, 8.8.2.2."""
ETAG = re.compile(r'(?:W/)?"[!#-~]{0,500}"')
RANGE = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19}|\*)")
REPORT = 5.0
"""Seconds until the first report of progress; each further one comes after twice the time, at most `RARELY`."""
RARELY = 60.0


class TransferRequest(NamedTuple):
    """The request for a transfer."""

    target: HttpTarget
    digest: Digest | None
    bounds: DownloadBounds
    tell: Callable[[int, int], None]
    """Called every few seconds with the number of bytes that have arrived and of all bytes (-1: unknown)."""


class Transfer:
    """One download. `abort` may be called by another thread."""

    def __init__(self, request: TransferRequest) -> None:
        self._wish = request
        self._get = HttpGet(request.bounds.stall)
        self._told, self._pause = time.monotonic(), REPORT

    def abort(self, why: str) -> None:
        """End the transfer; the bytes that have arrived are kept for a later one."""
        self._get.abort(why)

    def is_current(self, known: KnownContent) -> bool:
        """Return whether the server says that the known content is still current. Reads no content."""
        condition = _condition(known)
        return bool(condition) and self._limited(lambda: self._asked(condition)) == 304

    def _asked(self, headers: dict[str, str]) -> int:
        with self._get.open(self._wish.target, headers) as answer:
            return answer.status

    def into(self, entry: DownloadEntry) -> None:
        """Make the entry complete and current, with the declared hash.

        Raises `Permanent` if the server or the hash refuses it, `Temporary` if a later attempt may succeed.
        """
        try:
            if not (entry.whole and self._verified(entry)):
                self._limited(lambda: self._complete(entry))
                self._verify(entry)
        except (_DiskRefuses, OSError) as error:
            entry.drop()  # release the space: the disk must not stay full
            why = error.why if isinstance(error, _DiskRefuses) else error
            raise refused_call(f"cannot keep {self._wish.target.shown}: {why.strerror or why}", why) from None

    def _limited(self, work: Callable[[], int]) -> int:
        """Run the block within the time limit of the whole transfer; raise a clear error if it fails."""
        total, shown = self._wish.bounds.total, self._wish.target.shown
        timer = threading.Timer(total, self.abort, (f"it is not complete after {total:g} s",))
        timer.daemon = True
        timer.start()
        try:
            return work()
        except BROKEN as error:
            raise Temporary(f"cannot read {shown}: {self._get.why or _said(error)}") from None
        finally:
            timer.cancel()
            self._get.close()

    # -- the hash ----------------------------------------------------------------------------------------------

    def _verified(self, entry: DownloadEntry) -> bool:
        """Return whether complete content has the declared hash, so that no request is needed."""
        digest = self._wish.digest
        return digest is not None and self._hashes(entry)[digest.algorithm] == digest.value

    def _verify(self, entry: DownloadEntry) -> None:
        """Raise `WrongDigest`, and drop the content, if it does not have the declared hash."""
        try:
            demand_digest(self._wish.target.shown, self._hashes(entry), self._wish.digest)
        except Permanent:
            entry.drop()
            raise

    def _hashes(self, entry: DownloadEntry) -> dict[str, str]:
        """Return the SHA-256 of the content, and the declared kind of hash."""
        known = dict(entry.known.digests or {}) if entry.whole else {}
        wanted = {"sha256", *([self._wish.digest.algorithm] if self._wish.digest else ())} - known.keys()
        if wanted and entry.handle is not None:
            known |= digests(slices(entry.handle), wanted)
            entry.finish(known)
        return known

    # -- the transfer ------------------------------------------------------------------------------------------

    def _complete(self, entry: DownloadEntry) -> int:
        """Send requests until the content is complete; return the last status."""
        breaks = 0
        while True:
            before = entry.received
            try:
                if status := self._exchange(entry):
                    return status
            except BROKEN:
                breaks = breaks + 1 if entry.received > before else BREAKS
                if self._get.why or breaks >= BREAKS:
                    if not entry.known.strong or not entry.received:
                        entry.drop()
                    raise

    def _exchange(self, entry: DownloadEntry) -> int:
        """Send one request and store the answer; return its status, or 0 if another request is needed."""
        part = 0 if entry.whole or not entry.known.strong else entry.received
        asked = {"Range": f"bytes={part}-", "If-Range": entry.known.strong} if part else {}
        asked |= _condition(entry.known) if entry.whole else {}
        with self._get.open(self._wish.target, asked) as answer:
            status = answer.status
            if status == 304 and entry.whole:
                return status
            if status == 206 and part and _continues(answer, entry.known, part):
                _on_disk(entry.resume)
            elif status == 200:
                begun = _described(answer)
                self._demand_size(begun.size)
                _on_disk(lambda: entry.begin(begun))
            elif asked:
                entry.drop()
                return 0
            else:
                raise Permanent(f"cannot read {self._wish.target.shown}: the server says {status} to a plain request")
            self._receive(answer, entry)
        return status

    def _receive(self, answer: HTTPResponse, entry: DownloadEntry) -> None:
        while piece := answer.read1(CHUNK):
            self._demand_size(entry.received + len(piece), entry)
            _on_disk(partial(entry.write, piece))
            if self._get.why:
                raise ConnectionError(self._get.why)
            if time.monotonic() - self._told > self._pause:
                self._told, self._pause = time.monotonic(), min(2 * self._pause, RARELY)
                self._wish.tell(entry.received, entry.known.size)
        if self._get.why or answer.length or (entry.known.size not in {-1, entry.received}):
            raise ConnectionError(f"the connection ended {entry.known.size - entry.received} bytes too early")

    def _demand_size(self, size: int, entry: DownloadEntry | None = None) -> None:
        """Raise `Permanent`, and drop the content, if there are more bytes than declared."""
        bounds = self._wish.bounds
        if size > bounds.size:
            if entry is not None:
                entry.drop()
            raise Permanent(f"cannot read {self._wish.target.shown}: it is larger than {bounds.shown_size}")


class _DiskRefuses(Exception):
    """An error of the disk, as distinct from one of the connection."""

    def __init__(self, why: OSError) -> None:
        super().__init__()
        self.why = why


def _on_disk(step: Callable[[], object]) -> None:
    """Do a step on the disk; raise `_DiskRefuses` if it fails."""
    try:
        step()
    except OSError as error:
        raise _DiskRefuses(error) from None


def _condition(known: KnownContent) -> dict[str, str]:
    """Return the headers that request content only if it differs from the known content."""
    if known.etag:
        return {"If-None-Match": known.etag}
    return {"If-Modified-Since": known.modified} if known.modified else {}


def _continues(answer: HTTPResponse, known: KnownContent, part: int) -> bool:
    """Return whether a partial answer continues the part that is there."""
    found = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != part:
        return False
    tag = answer.headers.get("ETag", known.etag)
    return tag == known.etag and known.size in {-1, known.size if found[2] == "*" else int(found[2])}


def _described(answer: HTTPResponse) -> KnownContent:
    """Return the description of the content, from the headers of an answer."""
    tag = answer.headers.get("ETag", "").strip()
    return KnownContent(
        etag=tag if ETAG.fullmatch(tag) else "",
        modified=_telling(answer.headers.get("Last-Modified", ""), answer.headers.get("Date", "")),
        size=-1 if answer.length is None else answer.length,
    )


def _telling(modified: str, now: str) -> str:
    """Return a Last-Modified if any later change of the content must change it; else an empty text."""
    try:
        age = (parsedate_to_datetime(now) - parsedate_to_datetime(modified)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return ""
    return modified if age >= SECOND else ""


def _said(error: BaseException) -> str:
    """Return an error of a connection as text."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "it has sent nothing for too long"
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)[:200]
