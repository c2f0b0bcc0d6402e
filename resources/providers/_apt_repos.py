"""Changes of apt's repositories and of their keys. All functions block.

A new repository gets a file of its own, in the format of deb822, unless the caller names another file. An existing
repository is changed in its file, and everything else in this file stays as it is. The key of a repository has a file
of its own, which only this repository trusts (`Signed-By`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.providers._apt_keys import RepoChanges, change_of_key, key_path, parsed_key
from holdfast.resources.providers._apt_sources import (
    ID,
    MAIN,
    PARTS,
    SourceFile,
    Sources,
    described,
    fields_of,
    one_line,
    paragraph,
    parse_file,
    read_sources,
)
from holdfast.resources.providers._config_files import read_config, remove_config, write_config
from holdfast.resources.providers._dpkg import ETC

SETTINGS = frozenset({"key", "one_line", "clean_file"})
"""Options of `set_repo`."""
Locate = Callable[[Path], Path]
"""Returns where a file of the system is."""


class FileEdits(NamedTuple):
    """A change of the files of repositories."""

    changes: RepoChanges
    files: Mapping[Path, str | None] = {}
    """Path -> new content, None to remove the file; in the order in which the files are changed."""
    candidate: Mapping[str, str] = {}
    """Files with which apt can try the repository: name -> content. The first one is the list."""


def known_repos(etc: Path) -> dict[str, Repo]:
    """Return the repositories by id. Raises `Permanent` for a file that other users could have written."""
    return {name: described(name, file.path, entry.fields) for name, (file, entry) in read_sources(etc).items()}


def write_edit(locate: Locate, edit: FileEdits) -> None:
    """Change the files: a key before the entry that needs it, so that apt never finds an entry without its key."""
    for path, text in edit.files.items():
        if text is None:
            remove_config(locate(path))
        else:
            write_config(locate(path), text)


def set_repo(locate: Locate, repo: Repo, options: Mapping[str, Any], tried_in: Path) -> FileEdits:
    """Return the change that adds a repository or changes it, with its key.

    `tried_in` is the directory of the candidate. Raises `Permanent` for a value that the file could not hold, for a key
    that is not a public key, and for a file that other users could have written.
    """
    if unknown := options.keys() - SETTINGS:
        raise Permanent(f"cannot set repository {repo.id}: unknown options: {', '.join(sorted(unknown))}")
    known = read_sources(locate(ETC))
    file, entry = known.get(repo.id) or (_new_file(locate(ETC), repo, options), None)
    key = parsed_key(repo.id, options["key"]) if options.get("key") is not None else None
    if key is not None:
        repo = repo.model_copy(update={"extra": {"signed_by": str(key_path(repo)), **repo.extra}})
    fields = fields_of(repo)
    _demand_one_key(repo.id, fields, known)
    old = _shown(described(repo.id, file.path, entry.fields)) if entry else None
    new = _shown(described(repo.id, file.path, fields))
    changes: RepoChanges = {repo.id: {"old": old, "new": new}} if old != new else {}
    text = _text(file, repo, fields)
    content = file.replaced(entry, text) if entry else file.appended(text)
    if options.get("clean_file"):
        changes, content = changes | _others(file, repo.id, known), text
    files = {ETC / file.path: content} if changes else {}
    name = f"candidate{file.path.suffix}"
    if key is None:
        return FileEdits(changes, files, {name: text})
    of_key, path, data = change_of_key(locate, key_path(repo), key)
    tried = tried_in / f"key{path.suffix}"
    candidate = {name: _text(file, repo, fields | {"Signed-By": str(tried)}), tried.name: data}
    return FileEdits(changes | of_key, {**({path: data} if of_key else {}), **files}, candidate)


def _text(file: SourceFile, repo: Repo, fields: Mapping[str, str]) -> str:
    """Return the text of an entry in the format of its file."""
    return paragraph(fields) if file.is_deb822 else one_line(repo, fields)


def _new_file(etc: Path, repo: Repo, options: Mapping[str, Any]) -> SourceFile:
    """Return the file for a new repository. Raises `Permanent` if apt would not read such a file."""
    if given := repo.extra.get("file"):
        path = Path(str(given))
        inside = path.parent == ETC / PARTS and path.suffix in (".list", ".sources") and ID.fullmatch(path.name)
        if not inside and path != ETC / MAIN:
            raise Permanent(
                f"cannot set repository {repo.id}: apt reads no repositories from {given}, only from {ETC / MAIN} and "
                f"from files in {ETC / PARTS} that end in .list or .sources"
            )
        below = path.relative_to(ETC)
        return parse_file(below, read_config(etc / below) or "")
    if not ID.fullmatch(repo.id):
        raise Permanent(f"cannot set repository {repo.id!r}: its name has letters, digits and ._- only")
    return SourceFile(Path(PARTS, f"{repo.id}{'.list' if options.get('one_line') else '.sources'}"))


def _demand_one_key(name: str, fields: Mapping[str, str], known: Sources) -> None:
    """Raise `Permanent` if another entry of the same repository has another key: apt then refuses all repositories."""
    mine = _released(fields)
    for other, (file, entry) in known.items():
        if other == name or entry.fields.get("Enabled") == "no" or fields.get("Enabled") == "no":
            continue
        both = mine & _released(entry.fields)
        signed = [" ".join(each.get("Signed-By", "").split()) for each in (fields, entry.fields)]
        if both and signed[0] != signed[1]:
            raise Permanent(
                f"cannot set repository {name}: {ETC / file.path} has {' '.join(min(both))} already, with "
                f"{f'the key {signed[1]}' if signed[1] else 'no key of its own'}, and apt refuses all repositories if "
                "two entries for one have different keys; change or remove the other entry"
            )


def _released(fields: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return URI and suite of each release that an entry names."""
    uris = [uri.rstrip("/") for uri in fields.get("URIs", "").split()]
    return {(uri, suite) for uri in uris for suite in fields.get("Suites", "").split()}


def _others(file: SourceFile, name: str, known: Sources) -> RepoChanges:
    """Return the changes that remove all other entries of a file."""
    return {
        other: {"old": _shown(described(other, file.path, entry.fields)), "new": None}
        for other, (each, entry) in known.items()
        if each.path == file.path and other != name
    }


def remove_repo(locate: Locate, name: str, options: Mapping[str, Any]) -> FileEdits:
    """Return the change that removes a repository, and its file if nothing else is in it.

    Its key is removed if no other repository uses it, and if it has the path that `set_repo` gives it or, with the
    option `key`, is below /etc/apt.
    """
    known = read_sources(locate(ETC))
    if name not in known:
        return FileEdits({})
    file, entry = known[name]
    changes: RepoChanges = {name: {"old": _shown(described(name, file.path, entry.fields)), "new": None}}
    rest = file.replaced(entry, "")
    kept = file.path.name == MAIN or parse_file(file.path, rest).entries
    files: dict[Path, str | None] = {ETC / file.path: rest if kept else None}
    path = Path(entry.fields.get("Signed-By", "").strip() or "/")
    own = path == key_path(Repo(id=name, uris=())) or (
        options.get("key") and path.is_relative_to(ETC) and ".." not in path.parts
    )
    users = [other for other, (_, each) in known.items() if str(path) in each.fields.get("Signed-By", "")]
    if own and users == [name] and read_config(locate(path)) is not None:
        changes[str(path)] = {"old": "key", "new": None}
        files[path] = None
    return FileEdits(changes, files)


def _shown(repo: Repo) -> dict[str, Any]:
    """Return the fields of a repository for a change."""
    return repo.model_dump(mode="json", exclude={"id"}, exclude_none=True)
