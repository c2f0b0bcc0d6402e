"""Texts with odd characters, which replace each text in some arguments, and the check of commands that contain them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from extent import CI

CORE = "Zq7x"
"""Part of every odd text, by which tests find it."""
ODD = {
    "shell": f"{CORE};$(touch x)`id`|&<>*?[a]{{b,c}}!#~",
    "quotes": f"{CORE}'\"\\'\\\\",
    "newline": f"{CORE}\nroot = {CORE}\n[s]\nx",
    "carriage return": f"{CORE}\r\n{CORE}\r",
    "nul": f"{CORE}\0x",
    "leading dash": f"-{CORE}",
    "option": f"--{CORE}=/etc/passwd",
    "blanks": f"  {CORE}\t ",
    "line separators": f"{CORE}\u2028\u2029\x85\x0b\x0cx",
    "controls": f"{CORE}\x1b[2J\x07\x7f\x01",
    "bidi": f"{CORE}\u202egpj\u2066x\u200f",
    "combining": f"{CORE}e\u0301\u0327\u200d\ufe0f",
    "beyond the plane": f"{CORE}\U0001f600\U000e0001",
    "signs of files": f"{CORE}=:,;#%@/..",
    "template": f"{CORE}{{{{ x }}}}{{% y %}}",
    "percent": f"{CORE}%s%(x)s%n",
    "long": CORE + "x" * 5_000,
}
"""Name -> text."""
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "csh"})
PER_TEXT = 6 if CI else 1
"""Number of odd texts that are tried in each place; each run of the tests chooses others."""


class Key(NamedTuple):
    """The last step to the key of a mapping, in place of its value."""

    name: str


def texts(data: Any, steps: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys and positions that lead to each text in the arguments, and to each key of a mapping in them."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from texts(value, (*steps, key))
            if steps:
                yield (*steps, Key(key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from texts(value, (*steps, number))
    elif isinstance(data, str):
        yield steps


def replaced(data: Any, steps: tuple[Any, ...], odd: str, tmp: str) -> tuple[Any, str]:
    """Return the arguments with an odd text at one place, and this text; a path stays below the directory."""
    new = copy.deepcopy(data)
    inner = new
    for step in steps[:-1]:
        inner = inner[step]
    if isinstance(steps[-1], Key):
        inner[odd] = inner.pop(steps[-1].name)
        return new, odd
    old = inner[steps[-1]]
    if old.startswith((f"{tmp}/", f"file://{tmp}/")):
        odd = f"{old.rpartition('/')[0]}/{odd.replace('/', '_')}"
    inner[steps[-1]] = odd
    return new, odd


def demand_exact(argv: Sequence[Any], odd: str) -> None:
    """Raise `AssertionError` if a command has only a part of the text, splits it, or passes it as an option.

    No shell may interpret the text.
    """
    assert all(isinstance(word, str) and "\0" not in word for word in argv), argv
    shell = argv[0].rpartition("/")[2] in SHELLS and "-c" in argv
    for number, word in enumerate(argv):
        if CORE not in word:
            continue
        assert odd.strip() in word, (argv, "the text was changed, or split")
        assert not shell or argv[number - 1] != "-c", (argv, "a shell reads the text")
        if odd.startswith("-") and word.startswith(odd):
            assert "--" in argv[:number] or argv[number - 1].startswith("-"), (argv, "it would be an option")
