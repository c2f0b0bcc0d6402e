"""Finds the opening of a template tag that is not closed.

Jinja reports only the line at which it stops to parse, usually the end of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import jinja2

BLOCKS = frozenset({"for", "if", "block", "macro", "call", "filter", "set", "with", "autoescape", "trans", "profile"})
"""Tags that end with `end` and their name."""
LOADS = frozenset({"load_yaml", "load_json", "load_text"})
"""Tags that end with `endload`."""
INNERMOST = re.compile(r"The innermost block that needs to be closed is '(\w+)'")
WRONG = re.compile(r"Encountered unknown tag '(\w+)'")


class Tag(NamedTuple):
    """One `{% ... %}`."""

    word: str
    line: int
    assigns: bool
    """The tag is a `set` that contains its value."""

    @property
    def opens(self) -> bool:
        """Whether the tag opens a block."""
        return (self.word in BLOCKS and not self.assigns) or self.word in LOADS


def unclosed_tag(
    environment: jinja2.Environment, text: str, error: jinja2.TemplateSyntaxError
) -> tuple[int, str] | None:
    """Return the line at which to report an error, and a message; None if no unclosed tag is the cause."""
    said = error.message or ""
    open_tags: list[Tag] = []
    for tag in _tags(environment, text):
        if tag.word in ("{{", "{%", "{#"):
            return _open_delimiter(tag, error)
        if tag.opens:
            open_tags.append(tag)
        elif tag.word.startswith("end") and open_tags:
            if tag.word != _end_of(open_tags[-1].word):
                break
            open_tags.pop()
    if not open_tags or INNERMOST.search(said) is None:
        return None
    return _not_closed(open_tags[-1], said, error.lineno)


def _open_delimiter(tag: Tag, error: jinja2.TemplateSyntaxError) -> tuple[int, str] | None:
    """Return the line and the message of a tag without its closing delimiter; None if it does not cause the error."""
    is_cause = tag.line < error.lineno or "end of template" in (error.message or "")
    return (tag.line, f"this {tag.word} is not closed") if is_cause else None


def _not_closed(tag: Tag, said: str, line: int) -> tuple[int, str]:
    """Return the line at which to report a tag that is not closed, and a message; `said` is Jinja's error in `line`."""
    if wrong := WRONG.search(said):
        opened = f"{{% {tag.word} %}} of line {tag.line} is open, and ends with {{% {_end_of(tag.word)} %}}"
        return line, f"{{% {wrong[1]} %}} closes nothing here: {opened}"
    return tag.line, f"{{% {tag.word} %}} is not closed: {{% {_end_of(tag.word)} %}} is missing"


def _end_of(word: str) -> str:
    """Return the name of the tag that closes another one."""
    return "endload" if word in LOADS else f"end{word}"


def _tags(environment: jinja2.Environment, text: str) -> Iterator[Tag]:
    """Yield the tags of a template in order, up to a syntax error.

    The last tag may be unclosed; its word is then its delimiter.
    """
    begun, sign, words, assigns, depth = 0, "", [""], False, 0
    try:
        for line, kind, value in environment.lexer.tokeniter(text, None):
            if kind in ("block_begin", "variable_begin", "comment_begin"):
                begun, sign, words, assigns, depth = line, value[:2], [], False, 0
            elif kind in ("block_end", "variable_end", "comment_end"):
                if kind == "block_end" and words:
                    yield Tag(words[0], begun, assigns)
                begun = 0
            elif kind == "name":
                words.append(value)
            elif kind == "operator":
                depth += (value in "([{") - (value in ")]}")
                assigns = assigns or (value == "=" and depth == 0 and words[:1] == ["set"])
    except jinja2.TemplateSyntaxError:
        pass
    if begun:
        yield Tag(sign, begun, assigns)
