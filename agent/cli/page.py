"""The HTML page of a plan, for audits: differences by area, the time, and the host.

The page is self-contained: it has no scripts and fetches nothing, and its content policy allows only its own style.
Texts come from files, commands and states: all are escaped, and control characters are made visible.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from holdfast.agent.narrate import HIDDEN
from holdfast.agent.phrases import number_of
from holdfast.resources.contract import CONCERNS, Concern
from holdfast.resources.visible import clean, escaped, worded

ROOM = 16 << 20
"""Most characters of all diffs together."""
LONGEST = 4000
"""Most characters of one value."""
TITLES: Mapping[Concern, tuple[str, str]] = {
    "security": ("Security", "who may do what: users, groups, owners and modes, scheduled jobs, kernel parameters"),
    "operation": ("Operation", "packages, services, commands"),
    "content": ("Content", "content of files, directories and links"),
    "other": ("Other", "everything else"),
}
STATES = {
    "failed": ("Not checked, or failed", "resources that could not be checked or repaired"),
    "unknown": ("Not known yet", "resources that depend on changes of other resources"),
}
STYLE = """
:root { color-scheme: light dark; --ink: #1b2330; --faint: #5b6675; --line: #d8dde4; --page: #fff; --box: #f6f7f9;
  --security: #b42318; --operation: #b54708; --content: #175cd3; --other: #5b6675; --failed: #b42318;
  --unknown: #6941c6; --right: #067647; --add: #067647; --del: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --faint: #98a2b3; --line: #344054; --page: #0f1520;
  --box: #182030;
  --security: #fda29b; --operation: #fec84b; --content: #84caff; --other: #98a2b3; --failed: #fda29b;
  --unknown: #bdb4fe; --right: #75e0a7; --add: #75e0a7; --del: #fda29b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .25rem; padding-top: .75rem; border-top: 3px solid var(--tone, var(--line));
  }
h2 .n { color: var(--faint); font-weight: 400; } p { margin: .25rem 0 .75rem; } .faint { color: var(--faint); }
code, pre, td.v, h3 { font-family: ui-monospace, "DejaVu Sans Mono", "Liberation Mono", Consolas, monospace;
  font-size: .86rem; }
h3 { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0; }
th { font-weight: 500; color: var(--faint); } table.facts { margin: 1rem 0; } table.facts th { width: 11rem; }
td { overflow-wrap: anywhere; }
table.sums { margin: 1rem 0; } table.sums td, table.sums th { border-bottom: 1px solid var(--line);
  padding: .4rem .75rem .4rem 0; }
table.sums td.n, table.sums th.n { text-align: right; width: 6rem; font-variant-numeric: tabular-nums; }
a { color: inherit; } .mark { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px;
  background: var(--tone); margin-right: .5rem; }
article { margin: .75rem 0; padding: .7rem .9rem; background: var(--box); border-left: 4px solid var(--tone);
  border-radius: 3px; }
article p { margin: .1rem 0; } article .place { float: right; margin-left: 1rem; font-size: .86rem; }
article table { margin-top: .4rem; } article th { width: 9rem; font-size: .86rem; }
pre { margin: .5rem 0 0; padding: .5rem .7rem; border: 1px solid var(--line); border-radius: 3px;
  background: var(--page); white-space: pre-wrap; overflow-wrap: anywhere; }
pre ins { color: var(--add); text-decoration: none; } pre del { color: var(--del); text-decoration: none; }
pre b { color: var(--faint); font-weight: 400; }
.security { --tone: var(--security); } .operation { --tone: var(--operation); } .content { --tone: var(--content); }
.other { --tone: var(--other); }
.failed { --tone: var(--failed); } .unknown { --tone: var(--unknown); } .right { --tone: var(--right); }
ul.names { columns: 26rem; padding-left: 1.1rem; margin: .5rem 0; }
ul.names li { overflow-wrap: anywhere; break-inside: avoid; }
@media print { :root { --ink: #000; --faint: #444; --line: #999; --page: #fff; --box: #fff; --security: #b42318;
  --operation: #b54708; --content: #175cd3; --other: #555;
  --failed: #b42318; --unknown: #6941c6; --right: #067647; --add: #067647; --del: #b42318; }
  body { max-width: none; padding: 0; font-size: 10pt; }
article { border: 1px solid var(--line); border-left: 4px solid var(--tone); } h2, h3 { break-after: avoid; }
article table, article h3 { break-inside: avoid; } }
@page { margin: 15mm; }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class Row:
    """The finding about one resource."""

    identity: str
    state: str
    """`would-change`, `failed`, `unknown`, `ok` or `skipped`."""
    concern: Concern
    said: str
    """The finding in one sentence."""
    place: str
    """The place of the declaration."""
    changes: Mapping[str, Any]
    diff: str


def page(title: str, facts: Mapping[str, str], rows: Sequence[Row], notes: Sequence[str]) -> Iterator[str]:
    """Yield the page in pieces. `facts` are shown in its head, `notes` below."""
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="robots" content="noindex">\n'
        f"<title>{_text(title)}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{_text(title)}</h1>\n"
    )
    sections = _sections(rows)
    differing = sum(row.state == "would-change" for row in rows)
    yield f'<p class="faint">{_verdict(differing, rows)}</p>\n<table class="facts">\n'
    yield from (f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>\n" for name, value in facts.items())
    yield "</table>\n"
    yield from _sums(sections, rows)
    if notes:
        yield "<h2>Notes</h2>\n<ul>\n"
        yield from (f"<li>{_text(note)}</li>\n" for note in notes)
        yield "</ul>\n"
    room = ROOM
    for name, found in sections.items():
        heading, about = _titled(name)
        yield f'<section class="{name}" id="{name}">\n<h2>{heading} <span class="n">{len(found)}</span></h2>\n'
        yield f'<p class="faint">{about}</p>\n'
        for row in found:
            room -= len(row.diff)
            yield _article(row, "" if room > 0 else "left out, because this page would become too large")
        yield "</section>\n"
    yield from _rest("right", "As declared", [row for row in rows if row.state == "ok"])
    yield from _rest("skipped", "With no reason to run", [row for row in rows if row.state == "skipped"])
    yield "</body>\n</html>\n"


def _sections(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each section; empty sections are left out."""
    found: dict[str, list[Row]] = {name: [] for name in ("failed", *CONCERNS, "unknown")}
    for row in rows:
        if row.state in STATES:
            found[row.state].append(row)
        elif row.state == "would-change":
            found[row.concern].append(row)
    return {name: of_it for name, of_it in found.items() if of_it}


def _titled(name: str) -> tuple[str, str]:
    return STATES[name] if name in STATES else next(title for concern, title in TITLES.items() if concern == name)


def _verdict(differing: int, rows: Sequence[Row]) -> str:
    if not rows:
        return "No state applies to this host."
    failed = sum(row.state == "failed" for row in rows)
    differ = "differs" if differing == 1 else "differ"
    words = f"{differing} of {number_of(len(rows), 'resource')} {differ} from what is declared"
    return f"{words}; {failed} could not be checked." if failed else f"{words}."


def _sums(sections: Mapping[str, Sequence[Row]], rows: Sequence[Row]) -> Iterator[str]:
    """Yield the number of resources of each section, with a link."""
    yield '<table class="sums">\n<tr><th>What</th><th></th><th class="n">Resources</th></tr>\n'
    for name, found in sections.items():
        heading, about = _titled(name)
        yield (
            f'<tr class="{name}"><td><span class="mark"></span><a href="#{name}">{heading}</a></td>'
            f'<td class="faint">{about}</td>'
            f'<td class="n">{len(found)}</td></tr>\n'
        )
    for name, heading, state in (("right", "As declared", "ok"), ("skipped", "With no reason to run", "skipped")):
        if number := sum(row.state == state for row in rows):
            yield (
                f'<tr class="{name}"><td><span class="mark"></span><a href="#{name}">{heading}</a></td><td></td>'
                f'<td class="n">{number}</td></tr>\n'
            )
    yield "</table>\n"


def _article(row: Row, instead: str) -> str:
    """Return the section of one resource that differs. `instead` replaces a diff that does not fit."""
    said = f"<p>{_text(row.said)}</p>\n"
    changes = "".join(
        f'<tr><th>{_text(name)}</th><td class="v">{_value(old)} &rarr; {_value(new)}</td></tr>\n'
        if old is not None
        else f'<tr><th>{_text(name)}</th><td class="v">{_value(new)}</td></tr>\n'
        for name, old, new in _changes(row.changes, has_diff=bool(row.diff))
    )
    table = f"<table>\n{changes}</table>\n" if changes else ""
    diff = f'<p class="faint">diff {instead}</p>\n' if row.diff and instead else _diff(row.diff) if row.diff else ""
    place = f'<span class="place faint">{_text(row.place)}</span>'
    return f'<article class="{row.concern}">\n{place}<h3>{_text(row.identity)}</h3>\n{said}{table}{diff}</article>\n'


def _changes(changes: Mapping[str, Any], *, has_diff: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, old value (None if only the new one is known) and new value of each change."""
    for name, change in changes.items():
        if (name == "diff" and has_diff) or name in ("newfile", "new"):
            continue
        if change == HIDDEN:
            yield name, None, "changed"
        elif isinstance(change, Mapping) and set(change) == {"old", "new"}:
            yield name, change["old"] if change["old"] is not None else "", change["new"]
        elif isinstance(change, Mapping):
            yield from ((f"{name}: {part}", None, value) for part, value in change.items())
        else:
            yield name, None, change


def _value(value: Any) -> str:
    if value in ("", None, [], (), {}):
        return '<span class="faint">none</span>'
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(worded, value))
    text = value if isinstance(value, str) else worded(value)
    return escape(clean(text if len(text) <= LONGEST else f"{text[:LONGEST]}..."), quote=True)


def _diff(diff: str) -> str:
    tags = {"+": "ins", "-": "del", "@": "b"}
    lines = [clean(line) for line in diff.rstrip("\n").split("\n")]
    named = 2 if lines[0].startswith("--- ") else 0  # the lines with paths
    shown = (
        f"<{tag}>{escape(line)}</{tag}>" if (tag := "b" if number < named else tags.get(line[:1])) else escape(line)
        for number, line in enumerate(lines)
    )
    return "<pre>" + "\n".join(shown) + "</pre>\n"


def _rest(name: str, heading: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a section that lists names only."""
    if rows:
        yield f'<section class="{name}" id="{name}">\n<h2>{heading} <span class="n">{len(rows)}</span></h2>\n'
        yield '<ul class="names">\n'
        yield from (f"<li><code>{_text(row.identity)}</code></li>\n" for row in rows)
        yield "</ul>\n</section>\n"


def _text(text: str) -> str:
    """Return the text of one line as HTML."""
    return escape(escaped(text), quote=True)
