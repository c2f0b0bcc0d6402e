"""The content behind the URLs that states name as `source`."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import urlsplit

from holdfast.agent.places import trusted_uids
from holdfast.resources.errors import Permanent, Temporary, passing_or_not
from holdfast.states.errors import CompileError
from holdfast.states.source import demand_trust

LARGE = 1 << 20
"""Bytes from which on a local file is read in a thread."""
LIMIT = 256 << 20
"""Bytes of a download that are accepted."""
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

    async def read(self, url: str) -> bytes:
        """The content. Raises `Permanent` when it is not there or may not be read, `Temporary` when that may go away, like a server that does not answer."""
        path = self.local(url)
        if path is None:
            return bytes(await self._network(download, url))
        try:
            # Looked at before it is opened: opening a fifo blocks, and opening a device may act on it.
            status = os.stat(path)  # noqa: PTH116 - Path objects are slow
            if not S_ISREG(status.st_mode):
                raise Permanent(f"cannot read {url}: {path} is not a regular file")
            if url.startswith(TREE):
                self._demand_trust(url, path, status)
            return bytes(await self._blocking(read_file, path)) if status.st_size > LARGE else read_file(path)
        except OSError as error:
            raise passing_or_not(f"cannot read {url}: {path}: {error.strerror}", error) from None

    def _demand_trust(self, url: str, path: str, status: os.stat_result) -> None:
        """Refuse a file of the states directory that others could have written, as a state file is. Raises `Permanent`, `OSError`."""
        trusted, parent = trusted_uids(), path
        try:
            demand_trust(path, status, trusted)
            while parent != self._states:
                parent = os.path.dirname(parent)  # noqa: PTH120 - text is what is needed
                demand_trust(parent, os.stat(parent), trusted)  # noqa: PTH116 - the same
        except CompileError as error:
            problem = error.problems[0]
            raise Permanent(f"cannot read {url}: {problem.place}: {problem.message}; {problem.hint}") from None


def read_file(path: str) -> bytes:
    """The content of a file; never waits for a fifo that was put there meanwhile. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        return file.read()


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
