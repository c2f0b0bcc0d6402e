"""One-line entries of apt's repositories, see sources.list(5): `deb [arch=amd64] https://example.org/apt stable main`.

Kinds read them from the names of states, and the provider from files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LINE = re.compile(
    r"(#+\s*)?(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?([^\s\[]+:[^\s\[]*)\s+(\S+)((?:\s+[^#\s]\S*)*)\s*(?:#.*)?"
)
"""An entry of a one-line file; one that is commented out is not enabled."""
OPTIONS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
"""Options of a one-line entry that have another name as a field."""
SPELLED = ("Enabled", "Types", "URIs", "Suites", "Components")
"""Fields that are not options of a one-line entry."""


def fields_of_line(line: str) -> dict[str, str] | None:
    """Return the fields of an entry by their names in a deb822 file; None if the line is no entry."""
    match = LINE.fullmatch(line.strip())
    if match is None:
        return None
    comment, kind, options, uri, suite, components = match.groups()
    fields = {"Enabled": "no"} if comment else {}
    fields |= {"Types": kind, "URIs": uri, "Suites": suite, "Components": components.strip()}
    for option in (options or "").split():
        name, _, value = option.partition("=")
        fields[OPTIONS.get(name, name.title())] = value.replace(",", " ")
    return {name: value for name, value in fields.items() if value}


def line_of(fields: Mapping[str, str]) -> str:
    """Return the entry with these fields, each of which has one value where the format allows one only."""
    named = {field: option for option, field in OPTIONS.items()}
    options = {named.get(name, name.lower()): ",".join(fields[name].split()) for name in fields if name not in SPELLED}
    shown = f"[{' '.join(f'{name}={value}' for name, value in options.items())}]" if options else ""
    words = (fields["Types"], shown, fields["URIs"], fields["Suites"], *fields.get("Components", "").split())
    return f"{'# ' if fields.get('Enabled') == 'no' else ''}{' '.join(filter(None, words))}"
