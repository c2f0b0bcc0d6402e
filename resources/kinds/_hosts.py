"""The text of a hosts file: lines with an address, names and possibly a comment."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.resources.kinds._lines import ended, split

_LINE = re.compile(
    r"(?P<ip>[ \t]*(?P<address>[^\s#]+))(?P<names>(?:[ \t]+[^\s#]+)*)"
    r"(?P<blank>[ \t]*)(?P<comment>#[^\n\r]*)?(?P<end>\r?\n?)"
)


def canonical(address: str) -> str:
    """Return an address in its canonical form. Raises `ValueError`."""
    return str(ipaddress.ip_address(address))


@dataclass(slots=True)
class HostLine:
    """One line with an address."""

    address: str
    names: list[str]
    comment: str
    """Text after `#`, without surrounding blanks."""

    def has(self, name: str) -> bool:
        """Return whether the line has a name, ignoring case."""
        return any(each.lower() == name.lower() for each in self.names)

    def text(self) -> str:
        """Return the line as text in the standard layout."""
        return f"{self.address}\t{' '.join(self.names)}{f' # {self.comment}' if self.comment else ''}\n"


def parsed(line: str) -> HostLine | None:
    """Return the address of a line; None for comments, blank lines and invalid addresses."""
    found = _LINE.fullmatch(line)
    if found is None or not {".", ":"} & {*found["address"]}:  # most other lines: parsing them as addresses is slow
        return None
    try:
        address = canonical(found["address"])
    except ValueError:
        return None
    return HostLine(address, found["names"].split(), (found["comment"] or "").lstrip("#").strip())


def lines(text: str) -> Iterator[tuple[str, HostLine | None]]:
    """Yield each line of a file, with its line break, and its parsed form."""
    for line in split(text):
        yield line, parsed(line)


def pairs(text: str, name: str) -> list[tuple[str, str]]:
    """Return the addresses of a name, each with the comment of its line."""
    return [(line.address, line.comment) for _, line in lines(text) if line is not None and line.has(name)]


def rewritten(line: str, names: Sequence[str]) -> str:
    """Return a line with other names and everything else unchanged; empty without names."""
    found = _LINE.fullmatch(line)
    if found is None or not names:
        return ""
    between = re.match(r"[ \t]+", found["names"])
    return (
        f"{found['ip']}{between[0] if between else ' '}{' '.join(names)}"
        f"{found['blank']}{found['comment'] or ''}{found['end']}"
    )


def without(text: str, name: str, drops: Callable[[HostLine], bool]) -> str:
    """Return the text without a name in the lines for which `drops` returns true."""
    return "".join(
        rewritten(raw, [each for each in line.names if each.lower() != name.lower()])
        if line is not None and line.has(name) and drops(line)
        else raw
        for raw, line in lines(text)
    )


def added(text: str, address: str, name: str, comment: str | None) -> str:
    """Return the text with a name added to the address: on its first line with this comment, or on a new last line."""
    new, done = [], False
    for raw, line in lines(text):
        fits = line is not None and line.address == address and comment in {None, line.comment}
        if fits and line is not None and not done:
            done = True
            new.append(rewritten(raw, [*line.names, name]))
        else:
            new.append(raw)
    whole = "".join(new)
    return whole if done else ended(whole) + HostLine(address, [name], comment or "").text()
