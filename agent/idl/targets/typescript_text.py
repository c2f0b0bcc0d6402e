"""Parts of generated TypeScript: documentation, comments, literals."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.agent.idl.targets.typescript_types import SAFE
from holdfast.agent.model.docstrings import Docs

LONGEST = 120
"""Columns of a line, where a text has spaces at which it can be broken."""


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return json.dumps(text, ensure_ascii=False)


def literal(value: Any) -> str:
    """Return a constant as a literal: a whole number is a `bigint` only if a `number` is not exact."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return f"{value}n" if abs(value) > SAFE else str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{quoted(key)}: {literal(item)}' for key, item in value.items())} }}"
    return quoted(value) if isinstance(value, str) else repr(value)


def comment(text: str, indent: str = "") -> Iterator[str]:
    """Yield the lines of a comment."""
    return (f"{indent}// {line}".rstrip() for line in text.splitlines())


def _wrapped(paragraph: str, indent: int) -> str:
    """Return a paragraph in lines that leave room for the indent and for the signs of a comment."""
    lines = (
        textwrap.wrap(each, LONGEST - indent - 7, break_long_words=False, break_on_hyphens=False)
        for each in paragraph.split("\n")
    )
    return "\n".join("\n".join(each) for each in lines)


def documented(
    docs: Docs, indent: str = "", more: Sequence[str] = (), deprecated: str = "", since: str = ""
) -> list[str]:
    """Return the lines of the documentation of a declaration; `more`: sentences after the summary."""
    running = (" ".join(filter(None, (docs.summary, *more))), *docs.text)
    paragraphs = [_wrapped(each, len(indent)) for each in running]
    paragraphs += [f"```yaml\n{each}\n```" for each in docs.examples]
    tags = [f"@deprecated {deprecated}"] if deprecated else []
    tags += [f"@since {since}"] if since else []
    text = "\n\n".join(each for each in (*paragraphs, "\n".join(tags)) if each).replace("*/", "*\\/")
    if not text:
        return []
    lines = text.split("\n")
    if len(lines) == 1:
        return [f"{indent}/** {text} */"]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]
