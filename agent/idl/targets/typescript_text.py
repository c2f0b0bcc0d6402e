"""Parts of generated TypeScript: documentation, comments, literals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.agent.idl.targets.typescript_types import SAFE
from holdfast.agent.model.docstrings import Docs


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


def documented(
    docs: Docs, indent: str = "", more: Sequence[str] = (), deprecated: str = "", since: str = ""
) -> list[str]:
    """Return the lines of the documentation of a declaration; `more`: sentences after the summary."""
    paragraphs = [" ".join(filter(None, (docs.summary, *more))), *docs.text]
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
