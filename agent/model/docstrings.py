"""Docstrings as parts of the model: a summary, paragraphs of text, examples; and the docstrings of fields."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
import textwrap
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple


class Docs(NamedTuple):
    """The documentation of one thing."""

    summary: str = ""
    """The first paragraph, in one line."""
    text: tuple[str, ...] = ()
    """The other paragraphs. Only a list keeps its line breaks."""
    examples: tuple[str, ...] = ()
    """Examples in YAML, without common indentation."""


def docs_of(thing: Any) -> Docs:
    """Return the parts of the docstring of a class or function; it does not inherit one."""
    return parsed(inspect.cleandoc(thing.__doc__ or ""))


def parsed(text: str) -> Docs:
    """Return the parts of a docstring without common indentation.

    An example is a paragraph that is indented, or whose first line ends with a colon and is followed by an indented
    one. Paragraphs of examples that follow each other are one example.
    """
    summary, *paragraphs = text.split("\n\n")
    running: list[str] = []
    examples: list[str] = []
    before = False
    for paragraph in paragraphs:
        example = _is_example(paragraph)
        if not example:
            running.append(_joined(paragraph))
        elif before:
            examples[-1] += f"\n\n{paragraph}"
        else:
            examples.append(paragraph)
        before = example
    return Docs(_joined(summary), tuple(running), tuple(textwrap.dedent(example).rstrip() for example in examples))


def _is_example(paragraph: str) -> bool:
    first, _, rest = paragraph.partition("\n")
    return first.startswith(" ") or (first.endswith(":") and rest.startswith(" "))


def _joined(paragraph: str) -> str:
    """Return running text in one line; a list has a line for each item."""
    text = " ".join(line.strip() if line.startswith(" ") else line for line in paragraph.split("\n"))
    return text if "\n- " not in f"\n{paragraph}" else paragraph


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstring below the declaration of each field, in one line; the nearest class takes precedence."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(_declared(sys.modules.get(base.__module__)).get(base.__qualname__, {}))
    return found


@functools.cache
def _declared(module: ModuleType | None) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of the fields of each class at the top of a module, by the name of the class."""
    try:
        tree = ast.parse("" if module is None else inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return {}  # the module was not read from a file
    return {each.name: _of_body(each.body) for each in tree.body if isinstance(each, ast.ClassDef)}


def _of_body(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value.value if isinstance(text.value, ast.Constant) else ""
            found[field.target.id] = " ".join(str(value).split())
    return found
