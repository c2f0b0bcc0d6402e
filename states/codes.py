"""Every code that a problem can have: how grave it is, and what it means in one line.

docs/lint.md lists them; tests hold that list, and every code that stands in the compiler, against this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Level = Literal["error", "warning"]


class Code(NamedTuple):
    """What one code stands for."""

    level: Level
    meaning: str
    """A sentence without its full stop."""


def _of(level: Level, meanings: Mapping[str, str]) -> dict[str, Code]:
    return {code: Code(level, meaning) for code, meaning in meanings.items()}


SOURCES = _of(
    "error",
    {
        "source-binary": "a state file contains a NUL byte",
        "source-encoding": "a state file is not UTF-8",
        "source-missing": "a file that was named on the command line does not exist",
        "source-name": "the name of a state file is not UTF-8",
        "source-owner": "a file belongs to somebody who is not trusted",
        "source-size": "a state file is too large",
        "source-unreadable": "a file or directory cannot be read, or is not what it should be",
        "source-writable": "others than its owner may write a file, or replace it",
        "settings-shape": "a file of settings or grains holds no mapping",
        "unknown-setting": "there is no setting of this name",
        "wrong-setting": "a setting has a value that it cannot have",
        "kind-broken": "a kind cannot be loaded, or its own code fails",
    },
)
"""Files, settings and kinds."""
RENDERING = _of(
    "error",
    {
        "renderer-unknown": "the first line of a file asks for a renderer that there is not",
        "template-call": "a template calls what templates cannot call",
        "template-data": "data that a template loads cannot be read",
        "template-error": "a template fails",
        "template-forbidden": "a template does what templates may not",
        "template-limit": "a template makes, or would make, more than it may",
        "template-missing": "a template that is imported or included does not exist",
        "template-options": "a line #jinja2: asks for options of Jinja that there are not",
        "template-raise": "a template stops by itself, with raise()",
        "template-syntax": "a template cannot be read",
        "template-undefined": "a template uses a name or a key that is not there",
        "json-syntax": "a file is not JSON",
        "yaml-alias": "an alias has no anchor, or stands for too much",
        "yaml-character": "a file has a character that YAML forbids",
        "yaml-depth": "data are nested too deeply",
        "yaml-key": "the key of a mapping is none that can be used",
        "yaml-merge": "what is merged with << is not a mapping",
        "yaml-syntax": "a file is not YAML",
        "yaml-tab": "a line is indented with a tab",
        "yaml-tag": "a YAML tag is not known, or does not fit its value",
        "data-size": "the data of a file are too large",
        "duplicate-key": "a key stands twice in one mapping",
    },
)
"""From text to data."""
DECLARATIONS = _of(
    "error",
    {
        "argument-repeated": "an argument stands twice",
        "argument-shape": "an item among the arguments is not an argument",
        "argument-slot": "an argument is a slot of Salt's, which nothing would fill",
        "arguments-shape": "the arguments of a state are not a list",
        "duplicate-id": "two files declare the same ID",
        "exclude-shape": "an exclude cannot be read",
        "extend-ambiguous": "several states have the name that is extended",
        "extend-missing": "what is extended does not exist",
        "extend-shape": "an extend cannot be read",
        "function-missing": "a state has no function",
        "function-several": "a state has more than one function",
        "function-shape": "the function of a state has a space in it",
        "id-shape": "an ID does not say what it declares",
        "id-type": "an ID is not text",
        "include-environment": "an include names an environment that there is not",
        "include-outside": "a relative include leads out of the states directory",
        "include-shape": "an include cannot be read",
        "name-type": "a name is not text",
        "names-repeated": "one name stands twice, with different arguments",
        "names-shape": "an entry of names cannot be read",
        "requisite-shape": "a requisite cannot be read",
        "sls-missing": "a state file that is named does not exist",
        "sls-shape": "a state file holds no mapping of IDs",
        "state-repeated": "an ID declares one type twice",
        "state-type": "the type of a state is not text",
        "top-shape": "the top file cannot be read",
    },
)
"""From data to declarations."""
CALLS = _of(
    "error",
    {
        "argument-missing": "an argument that is required is not given",
        "argument-type": "an argument is of a wrong type",
        "argument-value": "an argument has a value that it cannot have",
        "contradiction": "two states declare one thing differently; a warning where the earlier one is `lenient`",
        "identity-repeated": "two states cannot be told apart",
        "recv-sender": "an argument is to receive what no state sends, or several",
        "recv-type": "what an argument is to receive does not fit it",
        "requisite-ambiguous": "several states have the name that an _in requisite gives",
        "requisite-loop": "states require each other in a circle",
        "requisite-missing": "a requisite names a state that does not exist",
        "source-absent": "a file that a state takes from the states directory is not there",
        "source-syntax": "the template of a managed file cannot be read, or uses a filter or test that there is not",
        "unknown-argument": "a state has no argument of this name",
        "unknown-function": "a state has no function of this name",
        "unknown-state": "there is no state of this name",
    },
)
"""From declarations to checked calls."""
FORMATTING = _of(
    "error",
    {
        "format-break": "a file to be formatted has lines that end with something else than a newline",
        "format-unsafe": "a file cannot be formatted without changing what it means",
    },
)
"""What `holdfast fmt` says; to the compiler they are nothing."""
NOTES = _of(
    "warning",
    {
        "argument-ignored": "an argument is accepted, and has no effect",
        "argument-reserved": "an argument has a name that means something else, and has no effect",
        "contradiction-possible": "two states declare one thing differently, one of them under a condition",
        "function-rest": "a function has a second dot, and what stands behind it has no effect",
        "order-word": "an order is neither a number nor first or last",
        "requisite-empty": "a requisite names nothing",
        "source-hidden": "a file never applies, because another has its name",
        "top-environment": "the top file names an environment that is not this host's",
    },
)
"""What the compiler notes on its way."""
LINT = _of(
    "warning",
    {
        "action-unguarded": "a command would run every time: nothing says when it is needed",
        "argument-needs": "an argument has no effect without another one",
        "argument-variable": "a managed file has no argument of this name, so that its template gets it as a variable",
        "extension-ignored": "Python modules for Salt lie among the states, and are not loaded",
        "file-unreached": "no top file and no other file leads to a state file",
        "ignore-unknown": "a comment ignores a code that there is not",
        "key-missing": "a template, or a state, asks for a key of the pillar or the grains that is not there, while one that looks alike is",
        "managed-twice": "two states manage one thing",
        "needed-earlier": "a state stands before one that makes what it needs",
        "owner-undeclared": "a file in the directory of a user declares no owner, so that it will be root's",
        "refresh-missing": "a state watches or listens, but its kind has no refresh",
        "requisite-disabled": "a requisite is turned off in the settings",
        "requisite-never": "a requisite can never be met, so that the state never runs",
        "requisite-noop": "a state requires one that is never applied (noop)",
        "reverse-missing": "a state asks to be undone when it is taken away, but its kind cannot be",
        "secret-plain": "a secret stands in a state file",
        "template-effect": "a template calls what does more than look",
        "template-name": "a template uses a name that is defined nowhere, perhaps in a branch that was not taken",
        "template-unknown": "a template uses a call, filter or test that there is not, in a branch that was not taken",
        "value-none": "a value has the text None, which a template makes of what is not there",
        "watch-never": "what is watched never reports a change",
    },
)
"""What `holdfast check` finds beyond that."""

CODES: Mapping[str, Code] = {**SOURCES, **RENDERING, **DECLARATIONS, **CALLS, **FORMATTING, **NOTES, **LINT}
"""Every code there is."""


def demand_warning(code: str) -> None:
    """Raise `ValueError` for what is no code of a warning: errors cannot be ignored."""
    known = CODES.get(code)
    if known is None:
        from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

        near = get_close_matches(code, CODES, n=1)
        raise ValueError(
            f"there is no code {code!r}" + (f"; did you mean {near[0]!r}?" if near else "; docs/lint.md lists them")
        )
    if known.level == "error":
        raise ValueError(f"{code!r} is an error, which cannot be ignored")
