"""Repositories of dnf and zypper: sections of the `.repo` files of a directory. All functions block.

A new repository gets a file of its own. An existing one is changed in its file, whose other sections stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.openpgp import NoKey, armored, binary, public_keys
from holdfast.resources.providers._config_files import list_config, read_config, remove_config, write_config

SECTION = re.compile(r"^\[([^\]\n]+)\][^\n]*\n(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^(\w+)[ \t]*=[ \t]*(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
"""A field, whose value may continue on indented lines."""
ID = re.compile(r"[\w.:-]*\w[\w.:-]*")
TRUE = ("1", "true", "yes", "on")
OWN = ("baseurl", "enabled", "gpgcheck", "priority")
"""Fields that are members of `Repo`; all others are in its `extra`."""
KEYS = Path("/etc/pki/rpm-gpg")
"""Directory of the keys of repositories."""
RepoChanges = dict[str, dict[str, Any]]


class Key(NamedTuple):
    """The key of a repository."""

    path: Path
    text: str
    """In ASCII armor: rpm imports no other keys."""
    file: Path
    """Where the file is: at `path`, except in tests."""


def key_of(name: str, key: object, root: Path) -> Key:
    """Return the key of a repository. Raises `Permanent` if it is not a public key. `root` is the directory of keys."""
    try:
        found = binary(str(key).encode())
        public_keys(found)
    except NoKey as error:
        raise Permanent(f"cannot set repository {name}: its key cannot be used: {error}") from None
    file = f"RPM-GPG-KEY-{name}"
    return Key(KEYS / file, armored(found), root / file)


def known_repos(directory: Path) -> dict[str, Repo]:
    """Return the repositories by id. Raises `Permanent` for a file that other users could have written."""
    return {name: repo for name, (repo, _) in _read(directory).items()}


def set_repo(directory: Path, repo: Repo, key: Key | None = None, *, test: bool) -> RepoChanges:
    """Add a repository or change it, with its key; return what differs.

    Raises `Permanent` for values that the file could not hold, and for a file that other users could have written.
    """
    section = section_of(repo, None if key is None else key.path)
    old, file = _read(directory).get(repo.id) or (None, directory / f"{repo.id}.repo")
    new = _repo(*SECTION.findall(section)[0])
    changes: RepoChanges = {}
    if key is not None and (present := read_config(key.file)) != key.text:
        changes[str(key.path)] = {"old": None if present is None else "another key", "new": "key"}
        if not test:
            write_config(key.file, key.text)
    if old != new:
        changes = {repo.id: {"old": old and old.model_dump(), "new": new.model_dump()}, **changes}
        if not test:
            _replace(file, repo.id, section)
    return changes


def section_of(repo: Repo, key: Path | None) -> str:
    """Return the section of a repository that trusts the key in a file. Raises `Permanent`."""
    return _section(
        repo if key is None else repo.model_copy(update={"extra": {"gpgkey": f"file://{key}", **repo.extra}})
    )


def remove_repo(directory: Path, name: str, keys: Path, *, test: bool) -> RepoChanges:
    """Remove a repository, its file if nothing else is in it, and the key that `set_repo` has written for it.

    Return what was removed. `keys` is the directory of keys.
    """
    old, file = _read(directory).get(name, (None, directory))
    if old is None:
        return {}
    changes: RepoChanges = {name: {"old": old.model_dump(), "new": None}}
    key = f"RPM-GPG-KEY-{name}"
    has_key = old.extra.get("gpgkey") == f"file://{KEYS / key}" and read_config(keys / key) is not None
    if has_key:
        changes[str(KEYS / key)] = {"old": "key", "new": None}
    if not test:
        _replace(file, name, "")
        if has_key:
            remove_config(keys / key)
    return changes


def _read(directory: Path) -> dict[str, tuple[Repo, Path]]:
    """Return id -> repository and its file."""
    files = [directory / name for name in sorted(list_config(directory)) if name.endswith(".repo")]
    return {
        name: (_repo(name, body), file) for file in files for name, body in SECTION.findall(read_config(file) or "")
    }


def _repo(name: str, body: str) -> Repo:
    """Return the repository of a section."""
    fields = {key: " ".join(value.split()) for key, value in FIELD.findall(body)}
    priority = fields.get("priority", "")
    return Repo(
        id=name,
        uris=tuple(re.split(r"[\s,]+", fields["baseurl"])) if fields.get("baseurl") else (),
        enabled=fields.get("enabled", "1").lower() in TRUE,
        gpgcheck=fields.get("gpgcheck", "1").lower() in TRUE,
        priority=int(priority) if priority.isdecimal() else None,
        extra={key: value for key, value in fields.items() if key not in OWN},
    )


def _section(repo: Repo) -> str:
    """Return the section of a repository. Raises `Permanent` for values that it could not hold."""
    fields: Mapping[str, object] = {
        "name": repo.id,
        **repo.extra,
        **({"baseurl": " ".join(repo.uris)} if repo.uris else {}),
        "enabled": int(repo.enabled),
        "gpgcheck": int(repo.gpgcheck),
        **({} if repo.priority is None else {"priority": repo.priority}),
    }
    lines = [f"{key}={value}" for key, value in fields.items()]
    if not ID.fullmatch(repo.id) or repo.id == "main":
        raise Permanent(f"cannot set repository {repo.id!r}: its name has letters, digits and ._:- only")
    if wrong := [line for line in lines if not FIELD.fullmatch(line) or len(line.splitlines()) > 1]:
        raise Permanent(f"cannot set repository {repo.id}: not a line of a .repo file: {wrong[0]!r}")
    return "\n".join([f"[{repo.id}]", *lines, ""])


def _replace(file: Path, name: str, section: str) -> None:
    """Replace a section of a file, or append it; remove a file without sections."""
    text = read_config(file) or ""
    found = next((match for match in SECTION.finditer(text) if match[1] == name), None)
    if found:
        blank = "\n" if section and found[0].endswith("\n\n") else ""
        new = text[: found.start()] + section + blank + text[found.end() :]
    else:
        new = text + ("\n" if text and not text.endswith("\n") else "") + section
    if new.strip():
        write_config(file, new)
    else:
        remove_config(file)
