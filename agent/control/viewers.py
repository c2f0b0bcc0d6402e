"""Removes private data from answers to viewers, who learn nothing that each user of the host could not read otherwise.

Each mapping of an answer is decided by itself, field by field. Names, states, times and counts are public. All other
fields, such as comments, diffs, arguments and texts of messages, are shown only if the mapping says that it is
`public`, or if its `code` stands for a message without such values. A field that this module does not know is hidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.agent.narrate import duration
from holdfast.resources.author import Author

HIDDEN = "[root only]"
"""Shown to viewers in place of a value."""

AGENT = "pid version id started states noop paused converged stuck health counts resources reload successful at"
ROW = "identity kind sls state result reason dirty running waiting failed flapping next last_change pending_refresh"
EXPLANATION = (
    "file line position reason_for_place last waits blocked_by needs needed_by history running_for matches more who"
)
RUN = (
    "cause by changed_by ended ran because undone duration attempts what times first for in every requisite pending"
    " number"
)
ENTRY = "time level logger resource pass code called uid severity since pauses recent rows public source"
OPEN_FIELDS = frozenset(f"{AGENT} {ROW} {EXPLANATION} {RUN} {ENTRY} data ok error entry frame kept recorded".split())
"""Fields that each viewer may see, in every mapping; mappings and lists in them are decided in turn."""
AUTHORS = frozenset({"by", "changed_by"})
"""Fields that contain a process, which changed or requested something."""
AUTHOR = frozenset({"pid", "name", "uid", "user", "login", "unit", "way"})
"""The public fields of a process, as in records: all but its command line, which belongs to its user."""
MESSAGE = frozenset({"event", "text"})
"""The fields that a `code` in `OPEN_CODES` makes public."""
WHOLE = frozenset({"counts", "paused", "pauses", "pass", "reload"})
"""Fields that are shown with all of their content. The reason of a pause is written for everyone."""
OPEN_CODES = frozenset({
    "config-polling", "dbus-gone", "descriptors-exhausted", "flapping", "interrupted", "left", "metrics-unavailable",
    "metrics-unwritten", "noticed", "not-undone", "owed-dropped", "packages-in-other-hands", "pass-began",
    "pass-ended", "paused", "recheck", "resumed", "state-renewed", "superseded", "undone", "view-unavailable",
    "watch-bounded", "watch-polling", "watched-again", "agent-started", "agent-stopping", "reloading",
    "configuration-changed", "states-compiled", "grains-changed",
    # reasons to wait
    "apply", "call", "order", "place", "rate-limit", "requisites", "semaphore", "sequence", "workers",
})  # fmt: skip
"""Codes of messages whose text contains no value of a resource and no text of an error of its kind."""


def masked(value: Any) -> Any:
    """Return the public part of an answer, or of a part of one. Iterators stay iterators."""
    if isinstance(value, Mapping):
        return _masked(value)
    if isinstance(value, (list, tuple)):
        return [masked(each) for each in value]
    if isinstance(value, Iterator):
        return map(masked, value)
    return value


def _masked(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping in which the private fields are hidden."""
    public, told = row.get("public") is True, row.get("code") in OPEN_CODES
    shown = {name: _field(name, value, public=public, told=told) for name, value in row.items()}
    if "event" in row and (row.get("by") or not (public or told)):
        shown["event"] = _sentence(row)
        if not public:
            shown.pop("details", None)  # the changes and the diff, for people
    if shown.get("comment") == HIDDEN and row.get("result") is True:
        shown["comment"] = ""  # nothing is wrong
    if "health" in row and all(each.get("code") in OPEN_CODES for each in row["health"]):
        shown["status"] = row.get("status")  # the text may repeat that of a condition
    return shown


def _field(name: str, value: Any, *, public: bool, told: bool) -> Any:
    if name in AUTHORS and isinstance(value, Mapping):
        return _author(value)
    if name in OPEN_FIELDS:
        return value if name in WHOLE else masked(value)
    return value if value is None or public or (told and name in MESSAGE) else HIDDEN


def _author(by: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public fields of a process."""
    return {name: value for name, value in by.items() if name in AUTHOR}


def _sentence(entry: Mapping[str, Any]) -> str:
    """Return a sentence about an entry of the log, made from its public fields."""
    if not entry.get("resource"):
        return HIDDEN
    what, lasted, by = entry.get("what") or entry.get("result"), entry.get("duration"), _author(entry.get("by") or {})
    text = f"{what if isinstance(what, str) else entry.get('code') or entry.get('level')} {entry['resource']}"
    text += "" if lasted is None else f" in {duration(lasted)}"
    why = [entry.get("cause"), entry.get("ended"), f"changed by {Author.of(by)}" if by else ""]
    told = "; ".join(str(each) for each in why if each)
    return f"{text} ({told})" if told else text
