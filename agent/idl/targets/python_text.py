"""Pieces of generated Python: literals, comments and docstrings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from holdfast.agent.model.docstrings import Docs

INDENT = "    "
LONGEST = 120
"""Columns of a line, where a text has spaces at which it can be broken."""


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
    examples = (f"{INDENT}{each}".replace("\n", f"\n{INDENT}") for each in docs.examples)
    paragraphs = [*(_wrapped(each, len(indent)) for each in (docs.summary, *docs.text)), *examples]
    text = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if text.endswith('"'):
        text = text[:-1] + '\\"'
    text = f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
    return [f"{indent}{line}".rstrip() for line in text.split("\n")]


def _wrapped(paragraph: str, indent: int) -> str:
    """Return a paragraph in lines that leave room for the indent and for the quotes around a text of one line."""
    lines = (
        textwrap.wrap(each, LONGEST - indent - 6, break_long_words=False, break_on_hyphens=False)
        for each in paragraph.split("\n")
    )
    return "\n".join("\n".join(each) for each in lines)
