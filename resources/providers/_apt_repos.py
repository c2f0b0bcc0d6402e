"""Changes of apt's repositories and of their keys. All functions block.

A new repository gets a file of its own, in the format of deb822; one that exists is changed where it is, and everything
else in its file stays as it is. The key of a repository is in a file of its own, which only this repository trusts
(`Signed-By`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.providers._apt_sources import (
    ID,
    MAIN,
    PARTS,
    SourceFile,
    described,
    fields_of,
    one_line,
    paragraph,
    parse_file,
    read_sources,
)
from holdfast.resources.providers._config_files import read_config, remove_config, write_config
from holdfast.resources.providers._dpkg import ETC

KEYRINGS = "keyrings"
ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
RepoChanges = dict[str, dict[str, Any]]
"""Id of a repository, or path of a key -> {old, new}; None means that there is none."""


def known_repos(etc: Path) -> dict[str, Repo]:
    """Return the repositories by id. Raises `Permanent` for a file that other users could have written."""
    return {name: described(name, file.path, entry.fields) for name, (file, entry) in read_sources(etc).items()}


def set_repo(etc: Path, repo: Repo, options: Mapping[str, Any], *, test: bool) -> RepoChanges:
    """Add a repository or change it, with its key; return what differs.

    Raises `Permanent` for a value that the file could not hold, and for a file that other users could have written.
    """
    if unknown := options.keys() - {"key", "one_line"}:
        raise Permanent(f"cannot set repository {repo.id}: unknown options: {', '.join(sorted(unknown))}")
    file, entry = read_sources(etc).get(repo.id) or (_new_file(repo, options), None)
    key = options.get("key")
    if key is not None:
        repo = _trusting(repo, key)
    fields = fields_of(repo)
    text = paragraph(fields) if file.is_deb822 else one_line(repo, fields)
    old = _shown(described(repo.id, file.path, entry.fields)) if entry else None
    new = _shown(described(repo.id, file.path, fields))
    changes: RepoChanges = {repo.id: {"old": old, "new": new}} if old != new else {}
    if key is not None:
        changes |= _set_key(etc, _keyring(repo.id), key, test=test)
    if old != new and not test:
        write_config(etc / file.path, file.replaced(entry, text) if entry else text)
    return changes


def _new_file(repo: Repo, options: Mapping[str, Any]) -> SourceFile:
    """Return the file of a new repository. Raises `Permanent` if its id is no name of a file."""
    if not ID.fullmatch(repo.id):
        raise Permanent(f"cannot set repository {repo.id!r}: its name has letters, digits and ._- only")
    return SourceFile(Path(PARTS, f"{repo.id}{'.list' if options.get('one_line') else '.sources'}"))


def _keyring(name: str) -> Path:
    """Return the file of a repository's key, below /etc/apt."""
    return Path(KEYRINGS, f"{name.replace(':', '-')}.asc")


def _trusting(repo: Repo, key: object) -> Repo:
    """Return a repository that trusts only its own key. Raises `Permanent` for a key that is not in ASCII armor."""
    if not str(key).lstrip().startswith(ARMOR):
        raise Permanent(f"cannot set repository {repo.id}: its key does not begin with {ARMOR}")
    return repo.model_copy(update={"extra": {**repo.extra, "signed_by": str(ETC / _keyring(repo.id))}})


def _set_key(etc: Path, keyring: Path, key: str, *, test: bool) -> RepoChanges:
    """Write a key, and return what differs."""
    before = read_config(etc / keyring)
    if before == key:
        return {}
    if not test:
        write_config(etc / keyring, key)
    return {str(ETC / keyring): {"old": None if before is None else "another key", "new": "key"}}


def remove_repo(etc: Path, name: str, *, test: bool) -> RepoChanges:
    """Remove a repository, its file if nothing else is in it, and its key if no other repository uses it."""
    known = read_sources(etc)
    if name not in known:
        return {}
    file, entry = known[name]
    changes: RepoChanges = {name: {"old": _shown(described(name, file.path, entry.fields)), "new": None}}
    keyring = _keyring(name)
    users = [other for other, (_, each) in known.items() if str(ETC / keyring) in each.fields.get("Signed-By", "")]
    has_key = users == [name] and read_config(etc / keyring) is not None
    if has_key:
        changes[str(ETC / keyring)] = {"old": "key", "new": None}
    if not test:
        rest = file.replaced(entry, "")
        if file.path.name == MAIN or parse_file(file.path, rest).entries:
            write_config(etc / file.path, rest)
        else:
            remove_config(etc / file.path)
        if has_key:
            remove_config(etc / keyring)
    return changes


def _shown(repo: Repo) -> dict[str, Any]:
    """Return the fields of a repository for a change."""
    return repo.model_dump(mode="json", exclude={"id"}, exclude_none=True)
