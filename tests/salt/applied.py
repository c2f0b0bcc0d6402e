"""The results of an agent on a host, and the differences from those of another agent on an equal host."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OF_AGENTS = re.compile(
    r"/(etc/(holdfast|salt)|var/(lib|cache|log)/(holdfast|salt)|opt/salt|tmp|var/tmp|run|root/\.cache"
    r"|var/lib/(dpkg|apt|systemd|ucf)|var/cache/apt|var/log/journal)(/.*)?"
    r"|/etc/(sysctl\.d/99-(holdfast|salt)\.conf|apt/apt\.conf\.d/90lab)"
    r"|/etc/(machine-id|hostname|\.pwd\.lock|ld\.so\.cache|(passwd|group|g?shadow|sub[ug]id)-)"
    r"|.*/__pycache__(/.*)?"
)
"""Paths that are not compared: files of the agents themselves, of package managers and of the running system."""
OF_PROGRAMS = re.compile(r"/(var/(log|lib|cache|mail|backups)|etc/(ssl/(certs|private)|ssh/ssh_host_.*))(/.*)?")
"""Paths that programs write, each time differently: only type, mode and owner are compared."""
SHOWN = 12
"""Lines of a difference that are shown."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one state."""

    name: str
    good: bool
    ran: bool
    changed: bool
    comment: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a disk; its content is None if it is not compared."""

    what: str
    """Its type, mode and owner, or where a link leads; `removed` if there is none."""
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What one agent did to a host with the states of a tree."""

    results: Mapping[str, Result] = field(default_factory=dict)
    """State -> result of the first run."""
    again: frozenset[str] = frozenset()
    """States other than commands that have changed something when they were applied again."""
    disk: Mapping[str, Entry] = field(default_factory=dict)
    facts: frozenset[str] = frozenset()
    """Installed packages, and units with their states."""
    refused: str = ""
    """The reason why nothing was applied."""


def of_holdfast(rows: Sequence[Mapping[str, Any]]) -> dict[str, Result]:
    """Return the results of `holdfast apply --format json`."""
    return {
        f"{row['state']}.{row['fun']}[{row['id']}: {row['name']}]": Result(
            row["name"], row["result"] is not False, row["ran"], bool(row["changes"]), row["comment"]
        )
        for row in rows
    }


def of_salt(answer: Any) -> dict[str, Result]:
    """Return the results of `salt-call state.apply --out json`. Raise `ValueError` with its errors instead."""
    local = answer.get("local") if isinstance(answer, dict) else answer
    if not isinstance(local, dict):
        raise ValueError(str(local))  # noqa: TRY004 - the errors are an answer, too
    found = {}
    for tag, row in local.items():
        state, name_of, name, function = tag.split("_|-")
        found[f"{state}.{function}[{name_of}: {name}]"] = Result(
            name,
            row["result"] is not False,
            bool(row.get("__state_ran__", True)),
            bool(row["changes"]),
            str(row["comment"]),
        )
    return found


def disk(
    upper: Path, lowers: Sequence[Path], owners: Mapping[str, Mapping[int, str]], address: str
) -> dict[str, Entry]:
    """Return all entries of an overlay's upper directory that differ from those of its lower ones.

    `owners` has names of user IDs (`passwd`) and group IDs (`group`), which programs give out in any order. The address
    of the host is left out of contents.
    """
    found = {}
    for folder, folders, files in os.walk(upper):
        for name in (*folders, *files):
            path = Path(folder, name)
            inside = f"/{path.relative_to(upper)}"
            if OF_AGENTS.fullmatch(inside):
                continue
            entry = _entry(path, inside, owners, address)
            if entry != _below(inside, lowers, owners, address):
                found[inside] = entry
    return found


def _entry(path: Path, inside: str, owners: Mapping[str, Mapping[int, str]], address: str) -> Entry:
    info = path.lstat()
    if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
        return Entry("removed")
    if stat.S_ISLNK(info.st_mode):
        return Entry(f"link to {path.readlink()}")
    user, group = (owners[of].get(number, number) for of, number in (("passwd", info.st_uid), ("group", info.st_gid)))
    what = f"{stat.filemode(info.st_mode)} {user}:{group}"
    if not stat.S_ISREG(info.st_mode) or OF_PROGRAMS.fullmatch(inside):
        return Entry(what)
    return Entry(what, path.read_bytes().replace(address.encode(), b"ADDRESS"))


def _below(inside: str, lowers: Sequence[Path], owners: Mapping[str, Mapping[int, str]], address: str) -> Entry:
    for lower in lowers:
        path = Path(f"{lower}{inside}")
        if os.path.lexists(path):
            return _entry(path, inside, owners, address)
    return Entry("removed")


def accounts(text: str) -> dict[int, str]:
    """Return ID -> name of the lines of `getent passwd` or `getent group`."""
    return {int(fields[2]): fields[0] for fields in (line.split(":") for line in text.splitlines())}


def differences(salt: Applied, own: Applied) -> Iterator[str]:
    """Yield each difference of what Salt and Holdfast have made of equal hosts, one text each."""
    if salt.refused and own.refused:
        return
    if salt.refused or own.refused:
        yield from (f"{who} refuses: {one.refused}" for who, one in (("Salt", salt), ("Holdfast", own)) if one.refused)
        return
    yield from _of_results(salt.results, own.results)
    yield from (f"changes again with Holdfast only: {state}" for state in sorted(own.again - salt.again))
    yield from (f"with Salt only: {fact}" for fact in sorted(salt.facts - own.facts))
    yield from (f"with Holdfast only: {fact}" for fact in sorted(own.facts - salt.facts))
    for path in sorted({*salt.disk, *own.disk}):
        untouched = Entry("as before")
        if difference := _of_entries(salt.disk.get(path, untouched), own.disk.get(path, untouched)):
            yield f"{path}: {difference}"


def damages(results: Mapping[str, Result]) -> Iterator[tuple[str, str, str]]:
    """Yield damages of at most three files and one service that an agent repairs.

    Each is a script that fails if the damage does not apply, a script that does it, and a Python expression for whether
    it is repaired.
    """
    for path in _names(results, "file.managed")[:3]:
        quoted = shlex.quote(path)
        same = f"subprocess.run(['cmp', '--quiet', {path!r}, '/run/before']).returncode == 0"
        yield f"test -f {quoted}; cp {quoted} /run/before", f"echo '# drift' >>{quoted}", same
    for unit in _names(results, "service.running")[:1]:
        active = f"subprocess.run(['systemctl', 'is-active', '--quiet', {unit!r}]).returncode == 0"
        yield f"systemctl is-active {shlex.quote(unit)}", f"systemctl stop {shlex.quote(unit)}", active


def _names(results: Mapping[str, Result], kind: str) -> list[str]:
    return [result.name for state, result in results.items() if state.startswith(f"{kind}[") and result.ran]


def _of_results(salt: Mapping[str, Result], own: Mapping[str, Result]) -> Iterator[str]:
    for state in dict.fromkeys((*salt, *own)):
        theirs, ours = salt.get(state), own.get(state)
        if theirs is None or ours is None:
            if "[listener_" not in state:
                yield f"{state}: a state of {'Holdfast' if theirs is None else 'Salt'} only"
        elif theirs.good != ours.good:
            failed, comment = ("Holdfast", ours.comment) if theirs.good else ("Salt", theirs.comment)
            yield f"{state}: fails with {failed} only: {brief(comment)}"


def _of_entries(salt: Entry, own: Entry) -> str:
    if salt.what != own.what:
        return f"{salt.what} with Salt, {own.what} with Holdfast"
    if salt.content == own.content:
        return ""
    theirs, ours = ((one or b"").decode(errors="replace").splitlines() for one in (salt.content, own.content))
    lines = [*difflib.unified_diff(theirs, ours, "with Salt", "with Holdfast", lineterm="", n=0)]
    return "\n".join(["other content", *lines[:SHOWN], *[f"and {len(lines) - SHOWN} lines"] * (len(lines) > SHOWN)])


def brief(text: str, length: int = 300) -> str:
    """Return a text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]} ..."
