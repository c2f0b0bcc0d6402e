"""Takes over the file in which earlier versions kept strings and host maps, and sets it aside as `world.json.old`.

The lock of earlier versions is held meanwhile. If the process dies before the end, the file stays, and the next process
takes it over again: its content replaces that of the store.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.records.world_records import HostString, SharedString
from holdfast.resources import paths
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.paths.handle import Handle, read_whole

FILE, LOCK, OLD = "world.json", "world.lock", "world.json.old"
LIMIT = 1 << 20
"""Most bytes of the file."""
GROUP = 500
"""Most strings that are written together."""
TIMEOUT = 3.0
"""Seconds to wait for another process that holds the lock."""
AGAIN = 0.05
"""Seconds between two attempts."""

Blocking = Callable[..., Awaitable[Any]]


class _Content(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(defer_build=True)

    strings: dict[str, str] = Field(default_factory=dict)
    """Key -> text."""
    hosts: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Namespace -> host -> text."""


async def take_over(directory: Path, api: NbApi, blocking: Blocking) -> None:
    """Store the content of the file, if there is one, and set the file aside. `blocking` makes blocking calls.

    Raises `Permanent` if this program has not written the file, `Temporary` while another process holds its lock,
    `OSError`, and the errors of the store.
    """
    if not await blocking(_exists, directory):
        return
    lock = await _locked(directory, blocking)
    try:
        records = await blocking(_read, directory)
        for start in range(0, len(records), GROUP):
            async with api.transaction() as writing:
                for each in records[start : start + GROUP]:
                    writing.put(each)
        await blocking(_set_aside, directory)
    finally:
        del lock  # closes the file, though the traceback of an error refers to this call


def _exists(directory: Path) -> bool:
    return paths.at(str(directory / FILE)).look() is not None


async def _locked(directory: Path, blocking: Blocking) -> Handle:
    """Return the lock file once no other process holds it; no thread waits for that."""
    loop = asyncio.get_running_loop()
    until = loop.time() + TIMEOUT
    while (lock := await blocking(_lock, directory)) is None:
        if loop.time() >= until:
            raise Temporary(f"cannot take over {directory / FILE}: another process holds its lock")
        await asyncio.sleep(AGAIN)
    return lock  # type: ignore[no-any-return]


def _lock(directory: Path) -> Handle | None:
    """Return the locked file; None if another process holds the lock."""
    place = paths.at(str(directory / LOCK))
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = Handle(os.open(place.at, flags, 0o600, dir_fd=place.fd))
    try:
        fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return handle


def _read(directory: Path) -> Sequence[SharedString | HostString]:
    """Return the content of the file; nothing if another process has taken it over meanwhile."""
    path = directory / FILE
    try:
        handle, seen = paths.at(str(path), follow=True).open()
    except FileNotFoundError:
        return ()
    if seen.st_size > LIMIT:
        raise _foreign(path, f"it has more than {LIMIT} bytes")
    try:
        content = _Content.model_validate_json(read_whole(handle.fd, seen, LIMIT, str(path)))
    except ValidationError as error:
        raise _foreign(path, error.errors(include_input=False, include_url=False)[0]["msg"]) from None
    return [
        *(SharedString(id=key, value=value) for key, value in content.strings.items()),
        *(
            HostString.of(namespace, host, value)
            for namespace, values in content.hosts.items()
            for host, value in values.items()
        ),
    ]


def _set_aside(directory: Path) -> None:
    """Rename the file, durably, and remove the lock file. Another process may have done so."""
    place = paths.at(str(directory / FILE))
    with suppress(FileNotFoundError):
        place.rename(place.beside(OLD))
        place.directory.sync()
    with suppress(FileNotFoundError):
        place.beside(LOCK).unlink()


def _foreign(path: Path, why: str) -> Permanent:
    return Permanent(f"cannot take over {path}: {why}; remove it to start without it")
