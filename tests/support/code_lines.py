"""Counts lines of code, without blank lines, comments and docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from holdfast.agent.idl.starting import TEMPLATES

BY_HAND = Path(__file__).parent.parent / "idl/by_hand/provider.py"
"""The provider of a new package, written without the generator."""
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """Return the number of lines of a module that have code."""
    lines = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SILENT
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def hand_written() -> tuple[int, int]:
    """Return the lines of the provider of a new package, with its source in the IDL, and without the generator."""
    written = ("shared/idl/notes.py.in", "python/provider/main.py.in")
    return sum(code_lines((TEMPLATES / each).read_text()) for each in written), code_lines(BY_HAND.read_text())
