"""The content behind the URLs that states name as `source`."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.resources import paths
from holdfast.resources.errors import Permanent, Temporary, passing_or_not
from holdfast.resources.paths.handle import LIMIT, acl_of, read_whole
from holdfast.resources.paths.place import Place

LARGE = 1 << 20
"""Bytes from which on a local file is read in a thread."""
TIMEOUT = 30.0
"""Seconds without progress after which a download fails."""
DEADLINE = 600.0
"""Seconds after which it fails in any case."""
CHUNK = 1 << 16
TREE = ("salt://", "tree://")
REMOTE = ("http://", "https://")


class Sources:
    """Reads sources; `states` is the directory that `salt://` and `tree://` stand for.

    `blocking` runs what waits for the disk, `network` what waits for a server.
    """

    def __init__(self, states: Path, blocking: Callable[..., Any], network: Callable[..., Any]) -> None:
        self._states, self._blocking, self._network = os.path.abspath(states), blocking, network  # noqa: PTH100 - text is what is needed

    def local(self, url: str) -> str | None:
        """The path of the file behind a URL, which need not exist; None when it is not on this host.

        Raises `Permanent` for a URL that leads out of the states directory or that is of no known form.
        """
        if url.startswith("/"):
            return url
        if url.startswith("file://"):
            return url.removeprefix("file://")
        if url.startswith(TREE):
            inside = url.partition("://")[2].partition("?")[0].lstrip("/")
            path = os.path.normpath(os.path.join(self._states, inside))  # noqa: PTH118 - text is what is needed
            if not path.startswith(self._states + "/"):
                raise Permanent(f"cannot read {url}: it leads out of the states directory {self._states}")
            return path
        if url.startswith(REMOTE):
            return None
        raise Permanent(f"cannot read {url}: write salt://, file://, http://, https:// or an absolute path")

    async def read(self, url: str, *, trusted: bool = False) -> bytes:
        """The content. Raises `Permanent` when it is not there or may not be read, `Temporary` when that may go away, like a server that does not answer.

        A file of the states directory is one that only trusted users could have written; any other with `trusted`. What a user may have
        put where it lies is read only if he may read it himself: the content goes where others can.
        """
        path = self.local(url)
        if path is None:
            return bytes(await self._network(download, url))
        try:
            place = paths.at(path, follow=True)
            return await read(place, self._blocking, trusted=trusted or url.startswith(TREE), published=True)
        except OSError as error:
            raise passing_or_not(f"cannot read {url}: {path}: {error.strerror}", error) from None
        except Permanent as error:
            raise Permanent(f"cannot read {url}: {str(error).removeprefix(f'cannot read {path}: ')}") from None


async def read(place: Place, blocking: Callable[..., Any], *, trusted: bool = False, published: bool = False) -> bytes:
    """The content of a file, in a thread if it is large. Raises `OSError`, `Permanent` and `Unsafe`."""
    handle, info = place.open()
    if trusted:
        paths.demand_trusted(place, info, acl_of(handle))
    elif published:
        place.demand_readable(info)

    def all_of_it() -> bytes:
        return read_whole(handle.fd, info, LIMIT, place.path)

    return bytes(await blocking(all_of_it)) if info.st_size > LARGE else all_of_it()


def download(url: str) -> bytes:
    """The body behind an http URL. Blocks; raises `Permanent` for a refusal, `Temporary` when trying again may help."""
    shown = printable(url)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "holdfast"})  # noqa: S310 - the caller has checked the scheme
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - the same
            data = read_answer(answer)
    except urllib.error.HTTPError as error:
        with error:
            text = f"cannot read {shown}: the server says {error.code} {error.reason}"
        raise (Temporary(text) if error.code >= 500 or error.code == 429 else Permanent(text)) from None
    except (ValueError, InvalidURL) as error:
        raise Permanent(f"cannot read {shown}: it is not a proper URL: {error}") from None
    except (OSError, HTTPException) as error:
        raise Temporary(f"cannot read {shown}: {getattr(error, 'reason', error)}") from None
    if len(data) > LIMIT:
        raise Permanent(f"cannot read {shown}: it is larger than {LIMIT >> 20} MiB")
    return data


def printable(url: str) -> str:
    """A URL without what may be secret in it. Raises `Permanent` for one that is none, or that holds a password, which is not sent."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise Permanent(f"cannot read {url}: it is not a proper URL: {error}") from None
    address = parts.netloc.rpartition("@")[2]
    shown = parts._replace(netloc=address, query="").geturl()
    if address != parts.netloc:
        raise Permanent(f"cannot read {shown}: a user or password in a URL is not supported")
    return shown


def read_answer(answer: HTTPResponse) -> bytes:
    """The body of an answer, up to one byte more than is accepted. Raises `OSError`, as `TimeoutError` when it takes too long in all."""
    end, data = time.monotonic() + DEADLINE, bytearray()
    while len(data) <= LIMIT and (piece := answer.read1(CHUNK)):
        data += piece
        if time.monotonic() > end:
            raise TimeoutError(f"it is not complete after {DEADLINE:g} s")
    if answer.length and len(data) <= LIMIT:
        raise ConnectionError(f"the connection ended {answer.length} bytes too early")
    return bytes(data[: LIMIT + 1])
