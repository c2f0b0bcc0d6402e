"""Filters that read this host, or random values. Their results may change although no file changes."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import random
import shutil
from collections.abc import Callable
from typing import Any, NoReturn

from jinja2 import pass_context
from jinja2.runtime import Context

from holdfast.states.filters.text import hexdigest, random_text
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import Forbidden

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories that `which` searches after the agent's own PATH."""


def looking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a filter; files that use it are rendered at each compilation."""

    @pass_context
    def run(context: Context, *args: Any, **kwargs: Any) -> Any:
        context["salt"].view.looked = True
        return function(*args, **kwargs)

    return run


def which(name: str | None) -> str | None:
    """Return the path of a program; None if it is not installed."""
    if name and "/" in name:
        return name if hostfiles.is_file(name) and hostfiles.permits(name, os.X_OK) else None
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PATH}") if name else None


def is_text(path: str, blocksize: int = 512) -> bool:
    """Return whether the beginning of a file is text."""
    if not hostfiles.is_file(path):
        return False
    block = hostfiles.beginning(path, blocksize)
    try:
        block.decode()
    except UnicodeDecodeError as error:
        return error.end >= len(block) - 3 and b"\0" not in block
    return b"\0" not in block


def list_files(directory: str) -> list[str]:
    """Return a path, and everything below it."""
    return sorted({directory, *(found.place.path for found in hostfiles.below(directory))})


def is_empty(path: str) -> bool:
    """Return whether a file is empty; False for an unsafe link. Raises `FileNotFoundError`."""
    info = hostfiles.look(path)
    if info is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return info.st_size == 0


def uid_of(name: str | None) -> int | None:
    """Return the uid of a user; None if there is no such user."""
    try:
        return pwd.getpwnam(name or "").pw_uid
    except KeyError:
        return None


def mac(prefix: str = "AC:DE:48") -> str:
    """Return a random hardware address with a prefix."""
    return ":".join([prefix, *(f"{random.randint(0, 255):02X}" for _ in range(3))])  # noqa: S311 - not for secrets


def no_network(*_: Any, **__: Any) -> NoReturn:
    """Raise `Forbidden` for a filter that would use the network."""
    raise Forbidden("templates do not use the network", "put the data into the pillar")


FILTERS: dict[str, Any] = {
    "which": looking(which),
    "get_uid": looking(uid_of),
    "is_text_file": looking(is_text),
    "is_bin_file": looking(lambda path: hostfiles.is_file(path) and not is_text(path)),
    "is_empty": looking(is_empty),
    "file_hashsum": looking(
        lambda path, form="sha256": hashlib.new(form, hostfiles.read(path), usedforsecurity=False).hexdigest()
    ),
    "list_files": looking(list_files),
    "random_str": looking(random_text),
    "random_hash": looking(
        lambda size=9999999999, hash_type="sha512": hexdigest(random.SystemRandom().randint(0, size), hash_type)
    ),
    "rand_str": looking(
        lambda size=9999999999, hash_type="md5": hexdigest(random.SystemRandom().randint(0, size), hash_type)
    ),
    "gen_mac": looking(mac),
    "http_query": no_network,
    "dns_check": no_network,
}
"""Name in templates -> function."""
