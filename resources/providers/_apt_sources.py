"""apt's repositories: entries of sources.list and of the files in sources.list.d, in both formats.

The id of a repository is the name of its file without its ending. Further entries of the file have a number:
`debian`, `debian:2`. sources.list(5) describes the formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.resources.apt_lines import fields_of_line, line_of
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.providers._config_files import list_config, read_config
from holdfast.resources.providers._dpkg import ETC

MAIN = "sources.list"
PARTS = "sources.list.d"
ENDINGS = (".list", ".sources")
FIELD = re.compile(r"([!-9;-~]+?):[ \t]*(.*)")
LISTS = {"types": "Types", "suites": "Suites", "components": "Components", "architectures": "Architectures"}
"""Keys of `Repo.extra` that are lists -> fields."""
OWN_FIELDS = frozenset({"Enabled", "Trusted", "URIs", "Signed-By", *LISTS.values()})
YES = frozenset({"yes", "true", "with", "on", "enable", "1"})
"""The values that apt reads as yes."""
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
NAME = re.compile(r"[A-Za-z][A-Za-z-]*")
WORD = re.compile(r"[!-~]+")
URI = re.compile(r"[a-z0-9+.-]+:[!-~]+")


@dataclass(frozen=True, slots=True)
class AptEntry:
    """One repository in a file."""

    fields: Mapping[str, str]
    """Fields of deb822 with their values, whatever the format of the file is."""
    first: int = 0
    """Number of its first line."""
    end: int = 0
    """Number of the line after its last line."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of repositories."""

    path: Path
    """Path below /etc/apt."""
    lines: tuple[str, ...] = ()
    entries: tuple[AptEntry, ...] = ()

    @property
    def is_deb822(self) -> bool:
        """Whether the file has paragraphs of fields, and not one line for each entry."""
        return self.path.suffix == ".sources"

    def replaced(self, entry: AptEntry, text: str) -> str:
        """Return the content of the file with another text in place of one entry; everything else stays as it is."""
        return "".join((*self.lines[: entry.first], text, *self.lines[entry.end :]))

    def appended(self, text: str) -> str:
        """Return the content of the file with another entry at its end."""
        before = "".join(self.lines)
        if before and not before.endswith("\n"):
            before += "\n"
        between = "\n" if before.strip() and self.is_deb822 else ""
        return f"{before}{between}{text}"


Sources = Mapping[str, tuple[SourceFile, AptEntry]]
"""Id -> the file and the entry."""


def read_sources(etc: Path) -> Sources:
    """Read all files below `etc`. Raises `Permanent` for a file that other users could have written. Blocks."""
    parts = sorted(name for name in list_config(etc / PARTS) if name.endswith(ENDINGS) and name[0] != ".")
    known: dict[str, tuple[SourceFile, AptEntry]] = {}
    for path in (Path(MAIN), *(Path(PARTS, name) for name in parts)):
        file = parse_file(path, read_config(etc / path) or "")
        stem = path.name if path.name == MAIN or path.stem in known else path.stem
        for number, entry in enumerate(file.entries, 1):
            known[stem if number == 1 else f"{stem}:{number}"] = (file, entry)
    return known


def parse_file(path: Path, text: str) -> SourceFile:
    """Parse a file in the format that its ending says."""
    lines = tuple(text.splitlines(keepends=True))
    return SourceFile(path, lines, tuple(_stanzas(lines) if path.suffix == ".sources" else _lines(lines)))


def _lines(lines: Iterable[str]) -> Iterator[AptEntry]:
    for number, line in enumerate(lines):
        if fields := fields_of_line(line):
            yield AptEntry(fields, number, number + 1)


def _stanzas(lines: tuple[str, ...]) -> Iterator[AptEntry]:
    first, fields, name = 0, dict[str, str](), ""
    for number, line in enumerate((*lines, "\n")):
        if line.strip() == "":
            if fields:
                yield AptEntry(fields, first, number)
            fields, name = {}, ""
        elif line[0] in " \t" and name:
            fields[name] = f"{fields[name]}\n{line.strip()}"
        elif match := FIELD.fullmatch(line.rstrip()):
            first = first if fields else number
            name = match[1].title().replace("Uris", "URIs")
            fields[name] = match[2]


def described(name: str, path: Path, fields: Mapping[str, str]) -> Repo:
    """Return the description of an entry."""
    lists = {key: fields[name].split() for key, name in LISTS.items() if fields.get(name)}
    others = {name: value for name, value in fields.items() if name not in OWN_FIELDS}
    extra: dict[str, Any] = {**lists, "file": str(ETC / path)}
    if fields.get("Signed-By"):
        extra["signed_by"] = fields["Signed-By"].strip()
    return Repo(
        id=name,
        uris=tuple(fields.get("URIs", "").split()),
        enabled=fields.get("Enabled", "yes").lower() in YES,
        gpgcheck=fields.get("Trusted", "no").lower() not in YES,
        extra={**extra, "options": others} if others else extra,
    )


def fields_of(repo: Repo) -> dict[str, str]:
    """Return the fields of a repository. Raises `Permanent` for a value that the file could not hold."""
    extra = {"types": ["deb"], **repo.extra}
    if unknown := extra.keys() - {*LISTS, "signed_by", "options", "file"}:
        raise Permanent(f"cannot set repository {repo.id}: apt has no {', '.join(sorted(unknown))} for it")
    lists = {name: _words(repo, key, extra[key], WORD) for key, name in LISTS.items() if extra.get(key)}
    fields = {"Types": lists.pop("Types"), "URIs": _words(repo, "uris", repo.uris, URI), **lists}
    if "Suites" not in fields:
        raise Permanent(f"cannot set repository {repo.id}: it has no suites")
    if extra.get("signed_by"):
        fields["Signed-By"] = str(extra["signed_by"]).strip()
    for name, value in (extra.get("options") or {}).items():
        if not NAME.fullmatch(str(name)):
            raise Permanent(f"cannot set repository {repo.id}: {name!r} is not the name of an option")
        fields[str(name).title()] = str(value).strip()
    if not repo.enabled:
        fields["Enabled"] = "no"
    if not repo.gpgcheck:
        fields["Trusted"] = "yes"
    return fields


def _words(repo: Repo, key: str, values: Iterable[str], word: re.Pattern[str]) -> str:
    """Return words, joined by blanks. Raises `Permanent` for a text that is not one word."""
    found = [values] if isinstance(values, str) else list(values)
    for value in found:
        if not word.fullmatch(str(value)) or not found:
            raise Permanent(f"cannot set repository {repo.id}: {value!r} cannot be one of its {key}")
    return " ".join(map(str, found))


def paragraph(fields: Mapping[str, str]) -> str:
    """Return the paragraph of a deb822 file."""
    return "".join(f"{name}: {_continued(value)}\n" for name, value in fields.items())


def _continued(value: str) -> str:
    """Return a value of several lines, such as a key, as the format demands: an empty line is a dot."""
    first, *more = value.split("\n")
    return "".join((first, *(f"\n {line if line.strip(' .') else '.'}" for line in more)))


def one_line(repo: Repo, fields: Mapping[str, str]) -> str:
    """Return the line of an entry. Raises `Permanent` if one line cannot hold the entry."""
    several = [name for name in ("Types", "URIs", "Suites") if len(fields[name].split()) != 1]
    if several or any(re.search(r"[\[\]#\n]", value) for value in fields.values()):
        raise Permanent(
            f"cannot set repository {repo.id}: one line of its file cannot hold "
            + (f"several {' and '.join(several)}" if several else "a key, or a value with brackets")
        )
    return f"{line_of(fields)}\n"
