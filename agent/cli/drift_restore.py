"""`drift restore`: what a repair has overwritten or removed comes back, next to its place or in it."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.agent.cli.drift import GONE, kept_files
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import ask
from holdfast.agent.host.files import Replacement
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.phrases import first_of
from holdfast.agent.records.drifts import SEEN, find, mark, overwriting, was_absent
from holdfast.agent.records.history import HistoryRecord
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.verbs.pause import Pause
from holdfast.resources import paths
from holdfast.resources.errors import Permanent, refused_call
from holdfast.resources.kinds.file.base import Ownership, put_link
from holdfast.resources.paths.handle import what

BESIDE = ".restored"
"""What the name of a restored file ends with."""
ESCAPED = re.compile(r"\\udc[89a-f][0-9a-f]")
"""A byte of a name that is not UTF-8, as records have it (`records/rows.readable`)."""
PERMISSIONS = 0o777
"""Bits of a mode that are restored: a user may have moved a file with the others there."""


class RestoreTarget(NamedTuple):
    """Where something is restored."""

    file: str = ""
    """Which of several files; empty: all of them."""
    to: str | None = None
    """A free path; None: next to the file, or in place."""
    in_place: bool = False
    seconds: float = 0.0
    """Duration of the pause, in place."""


def restore(source: ConfigurationSource, word: str, target: RestoreTarget, form: str) -> None:
    """Write the content of a drift where the operator wants it. Raises `HoldfastError`."""
    records = source.records()
    with RecordReader(records) as reader:
        drift = find(reader, word)
        later = overwriting(reader, drift) if drift.values["result"] != "changed" else None
    files = _chosen(drift, target.file, later)
    if len(files) > 1 and (target.in_place or target.to):
        names = first_of([each["path"] for each in files])
        raise Permanent(f"the repair has replaced {names}: name one with --file, or restore all next to their places")
    kept = kept_files(records)
    written = []
    if target.in_place:
        said = _in_place(source, drift, files[0], _content(files[0], kept), target.seconds)
        written.append(
            (_named(files[0]), f"; {said}; `holdfast drift adopt {drift.id}` prints how to make it permanent")
        )
    else:
        for file in files:
            path = target.to or f"{_named(file)}{BESIDE}"
            _write(file, _content(file, kept), path, replace=False)
            written.append((path, ""))
        mark(records, drift, SEEN)
    if form == "json":
        found = {"id": drift.id, "resource": drift.values["resource"], "restored": [path for path, _ in written]}
        print_json({**found, "paused": target.in_place})
        return
    for path, more in written:
        say(f"restored {path}{more}")


def _in_place(
    source: ConfigurationSource, drift: HistoryRecord, file: Mapping[str, Any], content: bytes | None, seconds: float
) -> str:
    """Pause the resource, put the content in its place, and return a sentence about the pause.

    Raises `HoldfastError`.
    """
    path = _named(file)
    _demand_replaceable(path)
    pause = Pause((drift.values["resource"],), f"drift {drift.id} was restored", seconds)
    said: str = ask(source.socket(), pause)["text"]
    _write(file, content, path, replace=True)
    mark(source.records(), drift, SEEN, f"{path} has the content from before the repair again (drift {drift.id})")
    return said


def _content(file: Mapping[str, Any], kept: KeptFiles) -> bytes | None:
    """Return the content of a file, None for a link. Raises `Permanent` if it is no longer kept."""
    if file.get("link"):
        return None
    content = kept.read(file["sha256"])
    if content is None:
        raise Permanent(f"cannot restore {file['path']}: it is {GONE}")
    return content


def _chosen(drift: HistoryRecord, path: str, later: HistoryRecord | None) -> list[Mapping[str, Any]]:
    """Return the files that can be restored. Raises `Permanent` if there are none.

    `later`: the change that has overwritten a file after this drift, if there is one.
    """
    values = drift.values
    files = [each for each in values.get("replaced") or () if each.get("path") and (not path or each["path"] == path)]
    found: list[Mapping[str, Any]] = [each for each in files if each.get("sha256") or each.get("link")]
    if not found:
        raise Permanent(f"cannot restore the drift {drift.id} of {values['resource']}: {_why_not(drift, files, later)}")
    return found


def _named(file: Mapping[str, Any]) -> str:
    """Return the path of a file. Raises `Permanent` if the record has some of its bytes escaped."""
    path: str = file["path"]
    if ESCAPED.search(path):
        raise Permanent(f"cannot restore {path} next to its place or in it: the name is not UTF-8; use --to")
    return path


def _why_not(drift: HistoryRecord, files: list[Mapping[str, Any]], later: HistoryRecord | None) -> str:
    """Return why nothing can be restored."""
    values = drift.values
    if lost := next((each["lost"] for each in files if each.get("lost")), ""):
        return f"its content was not kept: {lost}"
    if values["result"] != "changed":
        if later is not None:
            return f"it was overwritten later: `holdfast drift restore {later.id}` restores what was there then"
        return "it was not repaired, so nothing was overwritten"
    if files:
        return "only owner or mode were changed; `drift adopt` prints them"
    if was_absent(values):
        return "nothing was there before the repair; `holdfast drift list --all` has the IDs of earlier drifts"
    return (
        f"{values['kind']} has replaced no file; what file.*, sysctl.present and other kinds have written to files can "
        "be restored, and `drift adopt` shows the former values of other kinds"
    )


def _demand_replaceable(path: str) -> None:
    """Raise `Permanent`, before the resource is paused, if nothing can be put at this path."""
    try:
        seen = paths.at(path).look()
    except OSError as error:
        raise refused_call(f"cannot restore {path}: {(error.strerror or '').lower()}", error) from None
    if seen is not None and not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
        raise Permanent(f"cannot restore {path}: {what(seen.st_mode)} is there now")


def _write(file: Mapping[str, Any], content: bytes | None, path: str, *, replace: bool) -> None:
    """Write content, or make a link, with its owner and mode. Raises `HoldfastError`."""
    uid, gid = file.get("uid", 0), file.get("gid", 0)
    try:
        place = paths.at(path)
        if not replace and place.look() is not None:
            raise Permanent(f"cannot restore to {path}: it exists; name another path with --to")
        if content is None:
            put_link(place, file["link"], Ownership(None, None, uid, gid, None))
        else:
            Replacement(place, content, file.get("mode", 0) & PERMISSIONS, uid, gid, durable=True).place()
    except OSError as error:
        raise refused_call(f"cannot restore to {path}: {(error.strerror or str(error)).lower()}", error) from None
