"""Finds the pieces of Jinja in a text for the formatter: their positions, blocks and output.

Jinja's own lexer finds the pieces, so both always agree. Nothing is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import jinja2
from jinja2 import nodes

from holdfast.states.errors import CompileError
from holdfast.states.template.environment import environment, explain

_ENVIRONMENT = environment(None, marks=False)
_UNREADABLE = (jinja2.TemplateError, RecursionError, ValueError)
"""Exceptions of Jinja for a text that it cannot parse: invalid syntax, too deep, a number with too many digits."""
_BLOCKS = frozenset({"if", "for", "with", "autoescape", "block"})
"""Tags whose body is printed in place."""
_KEPT = {"macro": "endmacro", "set": "endset", "load_yaml": "endload", "load_json": "endload", "load_text": "endload"}
_CHANGED = {"call": "endcall", "filter": "endfilter"}
_VALUES = {**_KEPT, **_CHANGED}
"""Tags whose body becomes a value -> their end. Such a block is one piece, and nothing in it is changed."""
_SILENT = frozenset({"set", "do", "import", "from", "break", "continue", "import_yaml", "import_json", "import_text"})
_ONE_LINE = frozenset(
    {"abs", "avg", "base64_encode", "capitalize", "d", "default", "difference", "e", "escape", "first", "float", "int"}
    | {
        "intersect",
        "is_ip",
        "is_ipv4",
        "is_ipv6",
        "join",
        "json",
        "last",
        "length",
        "list",
        "lower",
        "map",
        "max",
        "md5",
        "min",
    }
    | {
        "path_join",
        "quote",
        "regex_escape",
        "regex_replace",
        "regex_search",
        "reject",
        "rejectattr",
        "replace",
        "round",
    }
    | {
        "select",
        "selectattr",
        "sha1",
        "sha256",
        "sha512",
        "sort",
        "string",
        "strip",
        "sum",
        "symmetric_difference",
        "title",
    }
    | {
        "to_bool",
        "to_num",
        "to_snake_case",
        "tojson",
        "traverse",
        "trim",
        "truncate",
        "union",
        "unique",
        "upper",
        "urlencode",
    }
    | {"yaml_dquote", "yaml_encode", "yaml_squote"}
)
"""Filters that never print several lines."""
_FUNCTIONS = frozenset({"range", "dict", "lipsum", "cycler", "joiner", "namespace"})
"""Functions that are not macros."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of Jinja in a text: `text[start:end]`, delimiters included."""

    start: int
    end: int
    word: str
    """The first word of a tag; `{{` for an expression, `{#` for a comment, `raw` for `{% raw %}`."""
    left: bool = False
    """It strips the white space before it."""
    right: bool = False
    """It strips the white space after it."""
    many: bool = False
    """It may print more than a part of one line."""

    @property
    def puts_out(self) -> bool:
        """Whether text is printed in its place."""
        return self.word in ("{{", "raw") or self.many

    @property
    def step(self) -> int:
        """1 when it opens a block, -1 when it closes one, else 0."""
        return int(self.word in _BLOCKS) - int(self.word.startswith("end"))

    @property
    def switches(self) -> bool:
        """Whether it begins another branch."""
        return self.word in ("else", "elif")


@dataclass(slots=True)
class _OpenTag:
    """A piece that is being read."""

    start: int
    word: str
    left: bool
    depth: int = 0
    assigns: bool = False

    @property
    def full_word(self) -> str:
        """Its word; `set block` for a `set` without an equals sign."""
        return "set block" if self.word == "set" and not self.assigns else self.word

    def read(self, kind: str, value: str) -> None:
        """Process a token inside of the tag: its first word, or an operator."""
        if not self.word and kind != "whitespace":
            self.word = value
        elif kind == "operator":
            self.depth += (value in "([{") - (value in ")]}")
            self.assigns |= value == "=" and self.depth == 0


def space(text: str, file: str) -> str:
    """Return the text with a space inside of each delimiter: `{{ x }}`, `{%- if x %}`.

    Raises `CompileError` if it is not a template.
    """
    parts: list[str] = []
    tokens = list(_tokens(text, file))
    at = 0
    for index, (start, kind, value) in enumerate(tokens):
        before = tokens[index - 1][1] if index else ""
        after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        parts += [text[at:start], _spaced(kind, value, before, after)]
        at = start + len(value)
    return "".join([*parts, text[at:]])


def _spaced(kind: str, value: str, before: str, after: str) -> str:
    """Return a token with a space inside of the delimiter; `before` and `after` are the types of its neighbours."""
    if kind in ("variable_begin", "block_begin") and after != "whitespace":
        return value + " "
    if kind in ("variable_end", "block_end") and before != "whitespace":
        return " " + value
    blank = kind == "whitespace" and not value.strip(" \t")
    return " " if blank and (before == "variable_begin" or after in ("variable_end", "block_end")) else value


def same(old: str, new: str, file: str) -> bool:
    """Return whether two templates have the same Jinja, word for word. Raises `CompileError`."""

    def words(text: str) -> list[tuple[str, str]]:
        return [(kind, value.strip()) for _, kind, value in _tokens(text, file) if kind not in ("whitespace", "data")]

    return words(old) == words(new)


def pieces(text: str, file: str) -> list[Piece]:
    """Return all pieces of Jinja in order. Raises `CompileError` if the text is not a template."""
    tree = _parse(text, file)
    try:
        return list(_joined(_single(text, file, _loose_names(tree))))
    except RecursionError as error:
        raise unreadable(error, text, file) from error


def _single(text: str, file: str, loose: frozenset[str]) -> Iterator[Piece]:
    """Yield each tag, expression and comment by itself."""
    current: _OpenTag | None = None
    for start, kind, value in _tokens(text, file):
        if kind in ("block_begin", "variable_begin", "comment_begin", "raw_begin"):
            word = {"variable_begin": "{{", "comment_begin": "{#", "raw_begin": "raw"}.get(kind, "")
            current = _OpenTag(start, word, value.endswith("-") or (word == "raw" and value.startswith("{%-")))
        elif current is not None and kind in ("block_end", "variable_end", "comment_end", "raw_end"):
            end = start + len(value.rstrip())
            many = _many(text[current.start : end], current, loose)
            right = value.startswith("-") or (kind == "raw_end" and value.rstrip().endswith("-%}"))
            yield Piece(current.start, end, current.full_word, current.left, right, many)
            current = None
        elif current is not None:
            current.read(kind, value)


def _joined(found: Iterator[Piece]) -> Iterator[Piece]:
    """Combine each block whose text becomes a value into one piece."""
    opened: list[Piece] = []
    for piece in found:
        word = "set" if piece.word == "set block" else piece.word
        if piece.word == "set block" or (word in _VALUES and piece.word != "set"):
            opened.append(piece)
        elif opened and word in _VALUES.values():
            first = opened.pop()
            if not opened:
                yield Piece(first.start, piece.end, "set", first.left, piece.right, first.word in _CHANGED)
        elif not opened:
            yield piece


def _tokens(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    """Yield the position, type and text of each token. White space that a `-` strips is not part of a token."""
    at = 0
    try:
        for _, kind, value in _ENVIRONMENT.lex(text):
            while not text.startswith(value, at):
                at += 1
            yield at, kind, value
            at += len(value)
    except _UNREADABLE as error:
        raise unreadable(error, text, file) from error


def unreadable(error: Exception, text: str, file: str) -> CompileError:
    """Return the error for a text that is not a template."""
    return CompileError([explain(error, file, {file: text}, (), secret=True)])


def _parse(text: str, file: str) -> nodes.Template:
    try:
        return _ENVIRONMENT.parse(text)
    except _UNREADABLE as error:
        raise unreadable(error, text, file) from error


def _many(text: str, current: _OpenTag, loose: frozenset[str]) -> bool:
    """Return whether a piece may print more than a part of one line."""
    if current.word == "{{":
        return "\n" in text or not _one_line(_ENVIRONMENT.parse(text), loose)
    if current.word == "raw":
        return "\n" in text
    known = (
        current.word in _BLOCKS
        or current.word in _SILENT
        or current.word in _KEPT
        or current.word in ("{#", "else", "elif")
    )
    return not known and not current.word.startswith("end")


def _one_line(tree: nodes.Node, loose: Collection[str]) -> bool:
    """Return whether an expression prints one line: it is data, rather than a macro or a filter that prints lines."""
    return not _lays_out(tree) and not any(name.name in loose for name in tree.find_all(nodes.Name))


def _lays_out(tree: nodes.Node) -> bool:
    """Return whether an expression may print several lines, whatever the values of its names."""
    if any(isinstance(const.value, str) and "\n" in const.value for const in tree.find_all(nodes.Const)):
        return True
    if any(found.name not in _ONE_LINE or _has_indent(found) for found in tree.find_all(nodes.Filter)):
        return True
    calls = [call.node for call in tree.find_all(nodes.Call)]
    return any(isinstance(called, nodes.Name) and called.name not in _FUNCTIONS for called in calls)


def _has_indent(found: nodes.Filter) -> bool:
    """Return whether a filter for JSON has an indentation, and so prints several lines."""
    return found.name in ("json", "tojson") and (
        bool(found.args) or any(keyword.key == "indent" for keyword in found.kwargs)
    )


def _loose_names(tree: nodes.Template) -> frozenset[str]:
    """Return the names that may print several lines.

    Modules of macros, and names that are set to text of several lines.
    """
    blocks = [block for block in tree.find_all(nodes.AssignBlock) if block.filter is None]
    found = {"caller", "self", "super", *(node.target for node in tree.find_all(nodes.Import))}
    found.update(*(_names(block.target) for block in blocks))
    users: dict[str, set[str]] = {}
    for target, value in _assigned(tree):
        names, whole = _names(target), nodes.Output([value])
        found |= names if _lays_out(whole) else set()
        for name in whole.find_all(nodes.Name):
            users.setdefault(name.name, set()).update(names)
    todo = list(found)
    while todo:
        more = users.get(todo.pop(), set()) - found
        found |= more
        todo += more
    return frozenset(found)


def _assigned(tree: nodes.Template) -> Iterator[tuple[nodes.Node, nodes.Node]]:
    """Yield the target and the value of each assignment, loop and `with`."""
    yield from ((node.target, node.node) for node in tree.find_all(nodes.Assign))
    yield from ((node.target, node.iter) for node in tree.find_all(nodes.For))
    for node in tree.find_all(nodes.With):
        yield from zip(node.targets, node.values, strict=True)


def _names(target: nodes.Node) -> set[str]:
    """Return the names to which an assignment gives a value."""
    tree = nodes.Output([target])
    return {found.name for found in tree.find_all(nodes.Name)} | {found.name for found in tree.find_all(nodes.NSRef)}
