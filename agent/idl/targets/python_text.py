"""Pieces of generated Python: literals, comments and docstrings."""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.agent.model.docstrings import Docs

INDENT = "    "


def literal(value: object) -> str:
    """Return a constant as Python writes it, with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def comment(text: str, indent: str = "") -> Iterator[str]:
    """Yield the lines of a comment."""
    return (f"{indent}# {line}".rstrip() for line in text.splitlines())


def docstring(docs: Docs, indent: str = "") -> list[str]:
    """Return the lines of a docstring, without quotes or escapes that would end or change it."""
    if not docs.summary:
        return []
    paragraphs = [docs.summary, *docs.text, *(f"{INDENT}{each}".replace("\n", f"\n{INDENT}") for each in docs.examples)]
    text = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    lines = [f'"""{text}"""' if len(paragraphs) == 1 else f'"""{text}\n"""']
    return [f"{indent}{line}".rstrip() for line in lines[0].split("\n")]
