"""Parses text to data with marks, by a constructor of our own over the events of libyaml.

PyYAML's own constructor builds a tree of nodes first and takes five times as long. This one is stricter than YAML: a
repeated key, a mapping as a key, and a tag that state files do not need are errors. An alias is a copy of its anchor's
value; parsed data is never changed, so both may share it.
"""

from __future__ import annotations

import json
from sys import intern
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from holdfast.states.errors import CompileError, Problem
from holdfast.states.parse.line_breaks import yaml_lines
from holdfast.states.parse.marks import At, Document, Map, Mark, Seq, packed, plain
from holdfast.states.parse.scalars import STARTERS, convert, resolve
from holdfast.states.parse.syntax import syntax, unreadable
from holdfast.states.source.files import LIMIT

DEPTH = 100
"""Maximum nesting of data; no person writes deeper data."""
EXPANDED = 1_000_000
"""Maximum number of values that all aliases of one document may expand to."""

_TAG = "tag:yaml.org,2002:"
_NONE: Any = object()
_MERGE: Any = object()


def parse_yaml(document: Document, text: str) -> Any:
    """Return the data of a YAML text that was rendered from `document`; None if the text is empty.

    Raises `CompileError`; if keys are repeated, with a problem for each of them.
    """
    demand_size(document, text)
    try:
        loader = yaml.CSafeLoader(text)
    except UnicodeEncodeError as error:
        mark = At(len(yaml_lines(text[: error.start])) - 1)
        raise CompileError(
            [document.problem(mark, "yaml-character", f"the character {text[error.start]!r} is not allowed")]
        ) from error
    try:
        return _Builder(document, loader).build()
    except yaml.reader.ReaderError as error:
        raise CompileError([unreadable(document, text, error)]) from error
    except yaml.MarkedYAMLError as error:
        raise CompileError([syntax(document, text, error)]) from error
    finally:
        loader.dispose()


def parse_json(document: Document, text: str) -> Any:
    """Return the data of a JSON text, without marks. Raises `CompileError`."""
    demand_size(document, text)

    def pairs(items: list[tuple[str, Any]]) -> Map:
        found = Map()
        for key, value in items:
            if key in found:
                raise CompileError(
                    [document.problem(None, "duplicate-key", f"the key {key!r} is duplicated in one object")]
                )
            found[key] = value
        return found

    try:
        data = json.loads(text, object_pairs_hook=pairs) if text.strip() else None
        json.dumps(data, ensure_ascii=False).encode()
        return _sequences(document, data)
    except UnicodeEncodeError as error:  # an escape that is half of a character
        raise CompileError(
            [document.problem(None, "json-syntax", f"the character {error.object[error.start]!r} is not allowed")]
        ) from error
    except json.JSONDecodeError as error:
        mark = At(error.lineno - 1, error.colno - 1)
        raise CompileError([document.problem(mark, "json-syntax", f"this is not JSON: {error.msg}")]) from error
    except ValueError as error:  # a number with more digits than Python reads
        raise CompileError([document.problem(None, "json-syntax", f"cannot read a number: {error}")]) from error
    except RecursionError as error:
        raise too_deep(document) from error


def demand_size(document: Document, text: str) -> None:
    """Raise `CompileError` for a text that would need more memory than a small machine has."""
    if len(text) > LIMIT:
        hint = "split the file, so that each makes fewer states"
        message = f"the data has {len(text) >> 20} MB, but YAML or JSON may have at most {LIMIT >> 20} MB"
        raise CompileError([document.problem(None, "source-size", message, hint)])


def _sequences(document: Document, value: Any, depth: int = 0) -> Any:
    """Return JSON data with its lists and mappings converted to those of state files."""
    if depth > DEPTH:
        raise too_deep(document)
    if isinstance(value, Map):
        for key, item in value.items():
            value[key] = _sequences(document, item, depth + 1)
    return Seq([_sequences(document, item, depth + 1) for item in value]) if isinstance(value, list) else value


def too_deep(document: Document, mark: Mark | None = None) -> CompileError:
    """Return the error for data that is nested too deeply."""
    return CompileError([document.problem(mark, "yaml-depth", f"the data is nested deeper than {DEPTH} levels")])


def load_text(text: str, name: str) -> Any:
    """Return plain data of a YAML text inside a template. Raises `CompileError` with lines of that text."""
    return plain(parse_yaml(Document(name, text), text))


class _Builder:
    """One document under construction: a stack of open containers, and the value of each anchor."""

    def __init__(self, document: Document, loader: yaml.CSafeLoader) -> None:
        self.document = document
        self.next_event = loader.get_event
        self.problems: list[Problem] = []
        self.stack: list[tuple[Any, Any, Any, Any, str | None]] = []
        self.anchors: dict[str, Any] = {}
        self.merges: dict[int, Any] = {}
        self.expanded = 0

    def build(self) -> Any:
        """Construct the document. Raises the errors of the parser, and `CompileError`."""
        root = self._values()
        if len(root) > 1:
            self._fail(
                root.marks[1],
                "yaml-syntax",
                "a state file has one document, but a second one begins here",
                "remove the line '---'",
            )
        if self.problems:
            raise CompileError(self.problems)
        return root[0] if root else None

    def _values(self) -> Seq:  # noqa: C901, PLR0912, PLR0915 - the one hot loop of the compiler
        """Process all events, and return the documents.

        This is one loop on purpose, in spite of its length: it runs once for every word of every state file.
        """
        next_event, stack = self.next_event, self.stack
        memo: dict[str, Any] = {}
        container: Any = Seq()
        in_map, key = False, _NONE
        key_mark: Any = None
        while True:
            event: Any = next_event()
            kind = event.__class__
            if kind is ScalarEvent:
                value, mark = event.value, event.start_mark
                if event.tag is not None:
                    value = self._tagged(event)
                elif event.implicit[0] and (not value or value[0] in STARTERS):
                    known = memo.get(value, _NONE)
                    value = memo.setdefault(value, resolve(value)) if known is _NONE else known
                    if in_map and key is _NONE and value == "<<":
                        value = _MERGE
                if event.anchor is not None:
                    self.anchors[event.anchor] = value
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._check_start(event, in_map and key is _NONE)
                stack.append((container, key, key_mark, event.start_mark, event.anchor))
                in_map = kind is MappingStartEvent
                container, key = Map() if in_map else Seq(), _NONE
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                value = self._merged(container) if self.merges else container
                container, key, key_mark, mark, anchor = stack.pop()
                in_map = container.__class__ is Map
                if anchor is not None:
                    self.anchors[anchor] = value
            elif kind is AliasEvent:
                value, mark = self._alias(event, in_map and key is _NONE), event.start_mark
            elif kind is StreamEndEvent:
                return container  # type: ignore[no-any-return]  # the outermost list, which has the documents
            else:
                if kind is DocumentStartEvent:
                    self.anchors.clear()
                continue
            if not in_map:
                container.append(value)
                container.marks.append(mark)
            elif key is _NONE:
                key, key_mark = intern(value) if value.__class__ is str and len(stack) > 1 else value, mark
            elif key is _MERGE:
                self.merges.setdefault(id(container), []).append((value, key_mark))
                key = _NONE
            else:
                if key in container:
                    self._repeated(container, key, key_mark)
                container[key] = value
                container.marks[key] = packed(key_mark)
                key = _NONE

    def _check_start(self, event: MappingStartEvent | SequenceStartEvent, as_key: bool) -> None:
        """Raise `CompileError` for a container that is a key, has a tag, or is nested too deeply."""
        if as_key:
            what = "mapping" if isinstance(event, MappingStartEvent) else "list"
            self._fail(
                event.start_mark,
                "yaml-key",
                f"a {what} cannot be a key",
                'if a template was meant, quote it: "{{ ... }}"',
            )
        if len(self.stack) >= DEPTH:
            raise too_deep(self.document, event.start_mark)
        tag = event.tag
        if tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq", f"{_TAG}omap"):
            self._fail(
                event.start_mark,
                "yaml-tag",
                f"the tag {self._shown_tag(tag)} cannot be used in state files",
                "remove it",
            )

    def _tagged(self, event: Any) -> Any:
        """Return the value of a scalar with a tag."""
        if event.tag == "!":
            return event.value
        if not event.tag.startswith(_TAG):
            self._fail(
                event.start_mark,
                "yaml-tag",
                f"the tag {self._shown_tag(event.tag)} cannot be used in state files",
                'quote the value if the "!" belongs to it',
            )
        try:
            return convert(event.tag.removeprefix(_TAG), event.value)
        except ValueError as error:
            said = "the value" if self.document.secret else f"{event.value!r}: {error}"
            self._fail(event.start_mark, "yaml-tag", f"cannot read {self._shown_tag(event.tag)} {said}")

    def _alias(self, event: Any, as_key: bool) -> Any:
        """Return the value of an alias."""
        if event.anchor not in self.anchors:
            self._fail(
                event.start_mark,
                "yaml-alias",
                f"*{self._shown(event.anchor)} names no anchor above it",
                f"define it first: &{self._shown(event.anchor)}; or quote it, if text is meant",
            )
        value = self.anchors[event.anchor]
        if as_key and isinstance(value, (Map, Seq)):
            self._fail(event.start_mark, "yaml-key", "a mapping or list cannot be a key")
        count, depth = extent(value, {})
        if len(self.stack) + depth > DEPTH:
            raise too_deep(self.document, event.start_mark)
        self.expanded += count
        if self.expanded > EXPANDED:
            self._fail(
                event.start_mark, "yaml-alias", f"the aliases of this file expand to more than {EXPANDED} values"
            )
        return value

    def _merged(self, container: Any) -> Any:
        """Return the mapping with the entries of its `<<` keys before its own keys, which take precedence."""
        merges = self.merges.pop(id(container), None)
        if merges is None:
            return container
        result = Map()
        for value, mark in merges:
            for source in value if isinstance(value, Seq) else (value,):
                if not isinstance(source, Map):
                    self._fail(mark, "yaml-merge", "only a mapping, or a list of mappings, can be merged with '<<'")
                for key in source:
                    if key not in container and key not in result:
                        result[key] = source[key]
                        result.marks[key] = source.marks[key]
        result.update(container)
        result.marks.update(container.marks)
        return result

    def _repeated(self, container: Map, key: object, mark: Mark | None) -> None:
        """Record a repeated key; parsing continues to find the others."""
        first = self.document.location(container.marks[key])
        top = len(self.stack) == 1 and not (self.document.data or self.document.secret)
        word, code = ("ID", "duplicate-id") if top else ("key", "duplicate-key")
        hint = (
            "give one of them another ID, and the name as an argument"
            if top
            else "remove one of them, or merge the two"
        )
        self.problems.append(
            self.document.problem(mark, code, f"the {word} {key!r} is duplicated: first in line {first.line}", hint)
        )

    def _shown(self, text: str) -> str:
        """Return a word of the file for a message; masked in a secret file, because it may be part of a password."""
        return "..." if self.document.secret else text

    def _shown_tag(self, tag: str | None) -> str:
        """Return a tag as users write it; tags of YAML are never secret."""
        tag = tag or ""
        return tag.replace(_TAG, "!!") if tag.startswith(_TAG) else self._shown(tag)

    def _fail(self, mark: Mark | None, code: str, message: str, hint: str = "") -> Any:
        """Raise `CompileError` with one problem."""
        raise CompileError([*self.problems, self.document.problem(mark, code, message, hint)])


def extent(value: Any, memo: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of values in a value (shared ones counted each time), and its number of levels."""
    if not isinstance(value, (Map, Seq)):
        return 1, 0
    if id(value) not in memo:
        inner = [extent(item, memo) for item in (value.values() if isinstance(value, Map) else value)]
        memo[id(value)] = 1 + sum(count for count, _ in inner), 1 + max((depth for _, depth in inner), default=0)
    return memo[id(value)]
