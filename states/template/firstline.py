"""Parses the first lines of a file: renderers (`#!jinja|yaml`), and options of Jinja (`#jinja2: {...}`)."""

from __future__ import annotations

import json
from typing import Any

from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.files import Text

PIPES = (("jinja", "yaml"), ("yaml",), ("json",), ("jinja", "json"))
"""Valid renderers of the first line; the first is the default."""

OPTIONS = "#jinja2:"
"""Prefix of the line that sets options of Jinja: the first line, or the one after `#!`."""
CHOICES = (
    *(f"{kind}_{end}_string" for kind in ("block", "variable", "comment") for end in ("start", "end")),
    *(
        "line_statement_prefix",
        "line_comment_prefix",
        "trim_blocks",
        "lstrip_blocks",
        "newline_sequence",
        "keep_trailing_newline",
    ),
)
"""Options of Jinja that a file may set."""


def split_shebang(text: Text) -> tuple[tuple[str, ...], str]:
    """Return the renderers that a file asks for, and its text, in which that line is a comment or (for JSON) blank.

    Raises `CompileError` for unknown renderers.
    """
    first, newline, rest = text.text.partition("\n")
    if not first.startswith("#!") or first.startswith("#!/"):
        return PIPES[0], text.text
    pipe = tuple(part.split()[0] if part.split() else "" for part in first[2:].split("|"))
    if pipe in PIPES:
        return pipe, newline + rest
    unknown = next((name for name in pipe if name not in ("jinja", "yaml", "json")), "|".join(pipe))
    hint = (
        "state files never run as programs: write the loop in Jinja, or a kind in Python"
        if unknown.startswith("py")
        else f"use one of {', '.join('#!' + '|'.join(known) for known in PIPES)}"
    )
    raise CompileError(
        [Problem(Location(str(text.path), 1), "renderer-unknown", f"there is no renderer {unknown!r}", hint, first)]
    )


def template_options(text: str, file: str) -> tuple[dict[str, Any] | None, str]:
    """Return the options of Jinja that a text sets (None: it sets none), and the text with that line empty.

    Raises `CompileError` for a line that is not a JSON mapping of options.
    """
    lines = text.split("\n", 2)
    at = int(len(lines) > 1 and lines[0].startswith("#!") and not lines[0].startswith("#!/"))
    asked = lines[at].removeprefix(OPTIONS).strip()
    if not lines[at].startswith(OPTIONS) or not asked:
        return None, text
    options = _mapping(asked)
    wrong = [name for name in options if name.lower() not in CHOICES] if options is not None else [asked]
    if options is None or wrong:
        hint = 'write it like #jinja2: {"trim_blocks": true}; available: ' + ", ".join(CHOICES)
        raise CompileError(
            [
                Problem(
                    Location(file, at + 1),
                    "template-options",
                    f"this is not an option of Jinja: {wrong[0]}",
                    hint,
                    lines[at],
                )
            ]
        )
    lines[at] = ""
    return {name.lower(): value for name, value in options.items()}, "\n".join(lines)


def _mapping(text: str) -> dict[str, Any] | None:
    """Return the mapping that a JSON text contains; None if it contains none."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
