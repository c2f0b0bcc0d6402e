"""The keys of apt's repositories. Each key has a file of its own, which the repository names in `Signed-By`."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.openpgp import NoKey, armored, binary, public_keys
from holdfast.resources.providers._config_files import read_config
from holdfast.resources.providers._dpkg import ETC

KEYRINGS = "keyrings"
ENDINGS = (".asc", ".gpg", ".pgp")
"""Endings of files of keys; only files that end in .asc are in ASCII armor."""
READABLE = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
RepoChanges = dict[str, dict[str, Any]]
"""Id of a repository, or path of a key -> {old, new}; None means that there is none."""


def parsed_key(name: str, key: object) -> bytes:
    """Return the packets of the key of a repository. Raises `Permanent` if it is not a public key in ASCII armor."""
    try:
        found = binary(str(key).encode())
        public_keys(found)
    except NoKey as error:
        raise Permanent(f"cannot set repository {name}: its key cannot be used: {error}") from None
    return found


def key_path(repo: Repo) -> Path:
    """Return the path of a repository's key: that in `Signed-By`, or a path made from the id.

    Raises `Permanent` if `Signed-By` is not the path of one file of keys.
    """
    given = str(repo.extra.get("signed_by") or ETC / KEYRINGS / f"{repo.id.replace(':', '-')}.asc").strip()
    path = Path(given)
    if not path.is_absolute() or path.suffix not in ENDINGS or len(given.split()) > 1 or ".." in path.parts:
        raise Permanent(
            f"cannot set repository {repo.id}: its key cannot be written to {given!r}: that must be one absolute path "
            f"which ends in {' or '.join(ENDINGS)}"
        )
    return path


def change_of_key(locate: Callable[[Path], Path], path: Path, key: bytes) -> tuple[RepoChanges, Path, str]:
    """Return what differs in the file of a key, its path, and the content that it should have."""
    present = read_config(locate(path))
    text = armored(key) if path.suffix == ".asc" else key.decode(errors="surrogateescape")
    if present is None:
        return {str(path): {"old": None, "new": "key"}}, path, text
    data = present.encode(errors="surrogateescape")
    try:
        same = binary(data) == key and (path.suffix == ".asc") is data.lstrip().startswith(b"-----")
    except NoKey:
        same = False
    if not same:
        return {str(path): {"old": "another key", "new": "key"}}, path, text
    seen = paths.at(str(locate(path)), follow=True).look()
    if seen is not None and seen.st_mode & READABLE != READABLE:  # apt verifies as another user
        return {str(path): {"old": "not readable by all", "new": "key"}}, path, text
    return {}, path, text
