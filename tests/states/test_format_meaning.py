"""`fmt`: a formatted file means the same as before, whatever its templates print.

Random files are rendered with many pillars.
"""

from __future__ import annotations

import functools
import itertools
import random
import re

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.states.errors import CompileError
from holdfast.states.format.formatter import format_text
from holdfast.states.parse.loader import parse_yaml
from holdfast.states.parse.marks import Document, plain

ENVIRONMENT = jinja2.Environment(keep_trailing_newline=True, autoescape=False)
PILLARS = [
    {"p": p, "q": q, "items": items, "text": text}
    for p, q in itertools.product((False, True), repeat=2)
    for items, text in (([], "word"), (["a", "b"], "two words"), (["z"], "/a/path"))
]
VALUES = """\
1 | yes | '0644' | [] | ~ | x:y | a  b | a # c | {a: 1,  b: [x,y]} | {{ text }} | {{text}}x | "a {{ text }}"
{% if p %}a{% else %}b{% endif %} | {{ 'a' if p else 'b' }} | {# c #}v""".replace("\n", " | ").split(" | ")


template = functools.lru_cache(maxsize=2)(ENVIRONMENT.from_string)
"""Compiles a text, and keeps the original and the formatted one: each is rendered with all pillars."""


def data(text, pillar):
    """Return the data of a file with a pillar, and whether the file has any."""
    try:
        return plain(parse_yaml(Document("x", ""), template(text).render(pillar) + "\n" * text.endswith("\n"))), True
    except CompileError:
        return None, False


def check(text):
    """Format a text twice, and compare the meaning."""
    try:
        formatted = format_text(text, "x.sls")
    except CompileError:
        return None
    assert format_text(formatted.text, "x.sls").text == formatted.text, f"not stable:\n{text}\n-----\n{formatted.text}"
    assert re.sub("[ \t\r\n]", "", text) == re.sub("[ \t\r\n]", "", formatted.text)
    for pillar in PILLARS:
        before, well = data(text, pillar)
        if well:
            assert data(formatted.text, pillar) == (before, True), f"{pillar}\n{text}\n-----\n{formatted.text}"
    return formatted


class Writer:
    """A writer of a state file with any indentation, any style and Jinja everywhere."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.out: list[str] = []
        self.count = 0
        self.careful = draw.random() < 0.6

    def chance(self, of: float) -> bool:
        """Return True with this probability."""
        return self.draw.random() < of

    def word(self) -> str:
        """Return a new key or name."""
        self.count += 1
        return self.draw.choice(
            [f"w{self.count}", f"w{self.count}-{{{{ text }}}}", f"'w{self.count}'", f"w{self.count}"]
        )

    def scalar(self) -> str:
        """Return a value of one line."""
        return self.draw.choice(VALUES)

    def line(self, indent: int, text: str) -> None:
        """Write a line, perhaps with spaces after it and blank or comment lines before it."""
        if self.chance(0.08):
            self.out += [""] * self.draw.randint(1, 3)
        if self.chance(0.06):
            self.out.append(" " * self.draw.choice([indent, 0, indent + 2]) + "# a comment {{ text }}")
        self.out.append(" " * indent + text + (" " * self.draw.randint(0, 3) if self.chance(0.2) else ""))

    def tag(self, indent: int, text: str) -> None:
        """Write a line with one tag."""
        column = indent if self.careful or self.chance(0.6) else self.draw.choice([0, max(indent - 2, 0), indent + 2])
        left = "-" if self.chance(0.15) else ""
        right = "-" if self.chance(0.08) else ""
        blank = self.draw.choice([" ", " ", "", "  "])
        self.out.append(" " * column + "{%" + left + blank + text + blank + right + "%}")

    def block(self, indent: int, body) -> None:
        """Write something, perhaps within a Jinja block."""
        kind = self.draw.choice(["plain"] * 6 + ["if", "else", "for", "nested", "set", "cut"])
        if kind == "set":
            self.tag(indent, "set v = 1")
        if kind in ("plain", "set"):
            body()
            return
        if kind == "cut":  # a block that does not contain whole siblings
            self.tag(indent, "if p")
            at = len(self.out)
            body()
            end = self.draw.randint(at, len(self.out))
            self.out.insert(end, " " * indent + "{% endif %}")
            return
        opening = {"for": "for i in items"}.get(kind, self.draw.choice(["if p", "if q", "if not p"]))
        self.tag(indent, opening)
        if kind == "nested":
            self.tag(indent, "if q")
            body()
            self.tag(indent, "endif")
        else:
            body()
        if kind == "else":
            self.tag(indent, self.draw.choice(["else", "elif q"]))
            body()
        self.tag(indent, "endfor" if kind == "for" else "endif")

    def text(self, indent: int) -> None:
        """Write the lines of a block scalar."""
        for _ in range(self.draw.randint(1, 4)):
            self.out.append(
                " " * (indent + self.draw.choice([0, 0, 0, 2])) + self.draw.choice(["text", "# text", "- text", "a: b"])
            )
            if self.chance(0.15):
                self.out.append(self.draw.choice(["", "", " " * (indent + 3)]))
            if self.chance(0.1):
                self.tag(indent, "if p")
                self.out.append(" " * indent + "more {{ text }}" * self.draw.randint(0, 1) + "x")
                self.tag(indent, "endif")

    def value(self, before: str, indent: int, column: int, depth: int) -> None:
        """Write a value after `before`, a dash or a key; its lines must be deeper than `column`."""
        step = self.draw.choice([2, 2, 4, 1, 3])
        gap = self.draw.choice([" ", " ", "   "])
        kind = self.draw.choice(["scalar"] * 3 + ["map", "list", "text", "long"] if depth < 4 else ["scalar"])
        if kind == "scalar":
            self.line(indent, before + gap + self.scalar())
        elif kind == "long":
            self.line(indent, before + gap + self.draw.choice(["many", '"many', "'many"]))
            quote = self.out[-1].strip()[-5:-4] if self.out[-1].strip()[-5:-4] in "'\"" else ""
            self.out.append(" " * (column + step) + "words" + quote)
        elif kind == "text":
            self.line(indent, before + gap + self.draw.choice(["|", ">", "|-", "|+", ">-", f"|{step}"]))
            self.text(column + step)
        else:
            self.line(indent, before)
            (self.mapping if kind == "map" else self.items)(
                column + (0 if kind == "list" and self.chance(0.2) else step), depth + 1
            )

    def items(self, indent: int, depth: int) -> None:
        """Write a list."""
        for _ in range(self.draw.randint(1, 3)):
            self.block(indent, lambda: self.item(indent, depth))

    def item(self, indent: int, depth: int) -> None:
        """Write an item of a list."""
        gap = self.draw.choice([" ", " ", "   "])
        if self.chance(0.5):
            self.line(indent, f"-{gap}{self.scalar()}")
        else:
            column = indent + 1 + len(gap)
            self.value(f"-{gap}{self.word()}:", indent, column, depth)
            if self.chance(0.2):
                self.value(f"{self.word()}:", column, column, depth)

    def mapping(self, indent: int, depth: int) -> None:
        """Write a mapping."""
        for _ in range(self.draw.randint(1, 3)):
            self.block(indent, lambda: self.value(f"{self.word()}:", indent, indent, depth))

    def file(self) -> str:
        """Write a whole file."""
        if self.chance(0.3):
            self.out += ["# head", "{%- macro m() %}", "   x", "{% endmacro %}"]
        for _ in range(self.draw.randint(1, 4)):
            self.block(0, lambda: self.value(f"{self.word()}:", 0, 0, 1))
        return "\n".join(self.out) + "\n" * self.draw.randint(0, 3)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 62))
def test_random_files_keep_their_meaning(seed):
    """The files have Jinja in every position and any indentation."""
    check(Writer(random.Random(seed)).file())


FOUND = {
    "a text that keeps blank lines, and may be the last": (
        "a: b\n{%-if q%}\nc: |+\n   - text\n{% elif q %}\nd: e\n{% endif %}\n\n\n"
    ),
    "a comment that is text when a branch is left out": (
        "{% if q %}\na: >-\n  b\n{% elif q %}\n\n\nc: d\n{% endif %}\n{% if p %}\n"
        "  # comment\ne:   f\n{% endif %}\ng: h\n"
    ),
    "a text with an indentation of its own, and a comment": (
        "a: |2\n    b\n  c\n{%if p%}\nd:   e\n{% endif %}\n  # comment\nf: g\n"
    ),
    "a loop that joins its own beginning to its end": (
        "{% for i in items -%}\n\na:   >-\n    {{ i }}\n    b\n{%- endfor %}\nc:   d\n"
    ),
    "a loop that joins its end through a condition": (
        "{% for i in items -%}\na:   >-\n  b\n  {% if p %}\n  c\n  {%- endif -%}\n{% endfor %}\nd:   e\n"
    ),
    "a text at the very end": "a: >\n # text",
    "lists that a branch empties": (
        "a:\n    b:\n    {% for i in items %}\n    - {{ i }}\n    {% endfor %}\n    c:\n        - d\n"
    ),
    "a condition's line that strips": "a:\n    - b:   1\n    {% if p -%}\n    - c:   2\n    {% endif -%}\n    - d\n",
    "white space in a text that only looks like an end": 'a: "b\\   \n    c"\nd:   e\n',
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_files_that_once_changed_their_meaning(text):
    """White space that looks insignificant decides their meaning."""
    check(text)


TREE = {
    "top.sls": "base:\n    '*':\n    - web\n{% if pillar.q %}\n    'web*':\n        - extra\n{% endif %}\n",
    "web/init.sls": (
        "{% from 'map.jinja' import port with context %}\ninclude:\n- base\nextend:\n"
        "    base lamp:\n        lamp.lit:\n            - size:   {{port}}\n"
        "{% for i in ['a', 'b'] %}\nlamp {{ i }}:\n    lamp.lit:\n        - names:\n"
        "            - x{{ i }}\n            - y{{ i }}:\n"
        "                - color: {{i}}\n"
        "        {% if pillar.p %}\n        - require:\n"
        "              - lamp: base lamp\n        {% endif %}\n{% endfor %}\n"
    ),
    "base.sls": "base lamp:\n    lamp.lit:\n        - tags: |\n              one\n                two\n",
    "extra.sls": (
        "#!jinja|yaml\nexclude:\n    - id:   lamp b\nbell:\n    bell.rung:\n"
        "        - watch_in:\n            - lamp: base lamp\n"
    ),
    "map.jinja": "{% set port = 80 if pillar.p else 81 %}\n",
}


@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("q", [True, False])
def test_formatted_states_compile_to_the_same(compile_tree, p, q):
    """High data, low data and order are compared for each branch that the pillar selects."""
    formatted = {name: format_text(text, name).text if name.endswith(".sls") else text for name, text in TREE.items()}
    assert all(formatted[name] != text for name, text in TREE.items() if name.endswith(".sls"))

    before, after = (compile_tree(files, pillar={"p": p, "q": q}) for files in (TREE, formatted))
    assert plain(before.high) == plain(after.high)
    assert [call.low for call in before.calls] == [call.low for call in after.calls]
