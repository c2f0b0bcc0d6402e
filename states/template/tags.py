"""Jinja extensions of state files: marks on each line of text (`parse/line_marks`), and tags that load data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from holdfast.states.parse.line_marks import marked

_VALUE_BLOCKS = frozenset({"macro", "call", "filter", "load_yaml", "load_json", "load_text"})
_VALUE_ENDS = frozenset({"endmacro", "endcall", "endfilter", "endset", "endload"})


class LineMarks(Extension):
    """Marks each line of top-level text."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield all tokens, text with marks. Jinja calls this while it compiles a template."""
        depth = 0
        block: list[Token] = []
        name = stream.name or ""
        ended = 0  # line of the tag that has just ended
        for token in stream:
            if ended and token.type != "data" and token.lineno > ended and depth == 0:
                yield Token(token.lineno, "data", marked("", token.lineno, name))  # the tag has removed the newline
            ended = 0
            if block or token.type == "block_begin":
                block.append(token)
                if token.type == "block_end":
                    yield from as_value(block) if depth else block
                    depth = max(0, depth + nesting(block))
                    block, ended = [], token.lineno
            elif token.type == "data" and depth == 0:
                yield Token(token.lineno, "data", marked(token.value, token.lineno, name))
            else:
                yield token
        yield from block  # the parser reports an unclosed tag


def as_value(block: list[Token]) -> list[Token]:
    """Return a `{% ... %}` within text that is kept as a value.

    An `include` in it is wrapped in `{% filter load_text %}`, which removes the marks of the included text.
    """
    if len(block) < 2 or block[1].value != "include":
        return block

    def tag(*words: str) -> list[Token]:
        line = block[0].lineno
        return [
            Token(line, "block_begin", "{%"),
            *(Token(line, "name", word) for word in words),
            Token(line, "block_end", "%}"),
        ]

    return [*tag("filter", "load_text"), *block, *tag("endfilter")]


def nesting(block: list[Token]) -> int:
    """Change of nesting by a `{% ... %}`: 1 if it enters text that is kept as a value, -1 if it leaves it, else 0."""
    word = block[1].value if len(block) > 1 else ""
    if word in _VALUE_BLOCKS:
        return 1
    if word in _VALUE_ENDS:
        return -1
    if word != "set":
        return 0
    depth = 0
    for token in block:
        depth += {"lparen": 1, "lbracket": 1, "lbrace": 1, "rparen": -1, "rbracket": -1, "rbrace": -1}.get(
            token.type, 0
        )
        if token.type == "assign" and depth == 0:
            return 0
    return 1


_TAGS = {"profile"} | frozenset(f"{verb}_{form}" for verb in ("load", "import") for form in ("yaml", "json", "text"))


class DataTags(Extension):
    """`{% load_yaml as x %}...{% endload %}` and `{% import_yaml "file" as x %}`; also for json and text.

    `{% profile as x %}` has no effect.
    """

    tags = set(_TAGS)  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Convert one tag to an assignment of the result of a load filter."""
        verb, _, form = parser.stream.current.value.partition("_")
        if verb == "import":
            imported: Any = parser.parse_import()
            name = imported.target
            return [
                imported,
                nodes.Assign(
                    nodes.Name(name, "store"),
                    _loaded(form, nodes.Name(name, "load"), imported.lineno),
                    lineno=imported.lineno,
                ),
            ]
        line = next(parser.stream).lineno
        parser.stream.expect("name:as")
        if verb == "profile":
            parser.parse_expression()
            return parser.parse_statements(("name:endprofile",), drop_needle=True)
        target = parser.parse_assign_target()
        body = parser.parse_statements(("name:endload",), drop_needle=True)
        # a macro, so that assignments inside of it have no effect outside
        macro = f"_{parser.free_identifier().name}"
        call = nodes.Call(nodes.Name(macro, "load"), [], [], None, None)
        return [
            nodes.Macro(macro, [], [], body, lineno=line),
            nodes.Assign(target, _loaded(form, call, line), lineno=line),
        ]


def _loaded(form: str, source: nodes.Expr, line: int) -> nodes.Expr:
    """Return the expression that applies the load filter of a form to a text."""
    found = nodes.Filter(source, f"load_{form}", [], [], None, None, lineno=line)
    found.set_lineno(line)
    return found
