"""Translates patterns of the language, which are those of Python, to regular expressions of JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]  # no public interface gives the parts of an expression
from typing import Any, Final

SPACES: Final = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
CATEGORIES: Final = {"DIGIT": r"\p{Nd}", "SPACE": SPACES, "WORD": r"\p{L}\p{N}_"}
ASCII: Final = {"DIGIT": "0-9", "SPACE": r"\t-\r\x20", "WORD": "A-Za-z0-9_"}
"""Name of a category -> the characters of a class in JavaScript."""
ANYTHING: Final = r"[\s\S]"
SYNTAX: Final = frozenset("\\^$.*+?()[]{}|/")


def javascript(pattern: str) -> str:
    """Return the expression that matches the same whole texts.

    Raises `ValueError` for a part without a counterpart. The expression needs the flag `u` of JavaScript.
    """
    parts = _parser.parse(pattern)
    if unknown := parts.state.flags & ~(re.UNICODE | re.ASCII | re.DOTALL | re.VERBOSE):
        raise ValueError(f"the pattern {pattern!r}: JavaScript has no counterpart of {re.RegexFlag(unknown)!r}")
    try:
        return f"^(?:{_Translation(parts.state.flags).sequence(parts)})$"
    except NotImplementedError as error:
        raise ValueError(f"the pattern {pattern!r}: JavaScript has no counterpart of {error}") from None


class _Translation:
    """The translation of one pattern."""

    def __init__(self, flags: int) -> None:
        self._categories = ASCII if flags & re.ASCII else CATEGORIES
        self._any = ANYTHING if flags & re.DOTALL else r"[^\n]"

    def sequence(self, parts: Any) -> str:
        """Return the parts, one after the other."""
        return "".join(self._part(str(name), value) for name, value in parts)

    def _part(self, name: str, value: Any) -> str:
        match name:
            case "LITERAL":
                return _character(value)
            case "NOT_LITERAL":
                return f"[^{_character(value, inside=True)}]"
            case "ANY":
                return self._any
            case "IN":
                return self._set(value)
            case "AT":
                return self._at(str(value))
        return self._group(name, value)

    def _group(self, name: str, value: Any) -> str:
        match name:
            case "BRANCH":
                return f"(?:{'|'.join(map(self.sequence, value[1]))})"
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(*value) + ("?" if name == "MIN_REPEAT" else "")
            case "SUBPATTERN":
                group, added, removed, parts = value
                if added or removed:
                    raise NotImplementedError("flags within a pattern")
                return f"({'' if group else '?:'}{self.sequence(parts)})"
            case "GROUPREF":
                return f"(?:\\{value})"
            case "ASSERT" | "ASSERT_NOT":
                direction, parts = value
                return f"(?{'<' if direction < 0 else ''}{'=' if name == 'ASSERT' else '!'}{self.sequence(parts)})"
        raise NotImplementedError(name.lower().replace("_", " "))

    def _repeat(self, least: int, most: Any, parts: Any) -> str:
        times = f"{least},{'' if str(most) == 'MAXREPEAT' else most}"
        return f"(?:{self.sequence(parts)}){{{times}}}"

    def _set(self, items: Any) -> str:
        negated = bool(items) and str(items[0][0]) == "NEGATE"
        outside = [str(value) for name, value in items if str(name) == "CATEGORY" and "_NOT_" in str(value)]
        inside = "".join(self._items(items))
        choices = ([f"[{inside}]"] if inside else []) + [f"[^{self._category(each)}]" for each in outside]
        whole = choices[0] if len(choices) == 1 else f"(?:{'|'.join(choices)})"
        return f"(?!{whole}){ANYTHING}" if negated else whole

    def _items(self, items: Any) -> Iterator[str]:
        for name, value in items:
            match str(name):
                case "LITERAL":
                    yield _character(value, inside=True)
                case "RANGE":
                    yield f"{_character(value[0], inside=True)}-{_character(value[1], inside=True)}"
                case "CATEGORY" if "_NOT_" not in str(value):
                    yield self._category(str(value))

    def _category(self, name: str) -> str:
        return self._categories[name.rpartition("_")[2]]

    def _at(self, name: str) -> str:
        word = f"[{self._categories['WORD']}]"
        inside, outside = f"(?<={word})(?!{word})|(?<!{word})(?={word})", f"(?<={word})(?={word})|(?<!{word})(?!{word})"
        places = {
            "AT_BEGINNING": "^",
            "AT_BEGINNING_STRING": "^",
            "AT_END": r"(?=\n?$)",
            "AT_END_STRING": "$",
            "AT_BOUNDARY": f"(?:{inside})",
            "AT_NON_BOUNDARY": f"(?:{outside})",
        }
        return places[name]


def _character(code: int, *, inside: bool = False) -> str:
    """Return a character, escaped where that is needed or more readable; `inside` a class, a hyphen is escaped, too."""
    text = chr(code)
    if text in SYNTAX or (inside and text == "-"):
        return f"\\{text}"
    return text if 32 <= code < 127 else f"\\u{{{code:x}}}"
