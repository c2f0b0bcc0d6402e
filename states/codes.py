"""Every code that a problem can have, with its level and its meaning.

`holdfast doc codes` prints them. A test compares them with the codes that the compiler uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from holdfast.resources.spelling import nearest

Level = Literal["error", "warning"]


class ProblemCode(NamedTuple):
    """The level and the meaning of a code."""

    level: Level
    meaning: str
    """One sentence without its full stop."""


def _of(level: Level, meanings: Mapping[str, str]) -> dict[str, ProblemCode]:
    return {code: ProblemCode(level, meaning) for code, meaning in meanings.items()}


SOURCES = _of(
    "error",
    {
        "source-binary": "a state file contains a NUL byte",
        "source-encoding": "a state file is not UTF-8",
        "source-missing": "a file that was named on the command line does not exist",
        "source-name": "the name of a state file is not UTF-8",
        "source-owner": "a file belongs to an untrusted user",
        "source-size": "a state file is too large",
        "source-unreadable": "a file or directory cannot be read, or is of the wrong type",
        "source-writable": "users other than its owner can write or replace a file",
        "settings-shape": "a file of settings or grains contains no mapping",
        "unknown-setting": "there is no setting of this name",
        "wrong-setting": "a setting has an invalid value",
        "kind-broken": "a kind cannot be loaded, or its own code fails",
    },
)
"""Files, settings and kinds."""
RENDERING = _of(
    "error",
    {
        "renderer-unknown": "the first line of a file names an unknown renderer",
        "template-call": "a template calls a function that templates do not have",
        "template-data": "data that a template loads cannot be read",
        "template-error": "a template fails",
        "template-forbidden": "a template does something that templates may not do",
        "template-limit": "a template exceeds, or would exceed, a limit",
        "template-missing": "a template that is imported or included does not exist",
        "template-options": "a line #jinja2: sets an unknown option of Jinja",
        "template-raise": "a template stops by itself, with raise()",
        "template-syntax": "a template cannot be parsed",
        "template-undefined": "a template uses an undefined name or key",
        "json-syntax": "a file is not JSON",
        "yaml-alias": "an alias has no anchor, or expands to too much data",
        "yaml-character": "a file has a character that YAML forbids",
        "yaml-depth": "data is nested too deeply",
        "yaml-key": "the key of a mapping is invalid",
        "yaml-merge": "a value that is merged with << is not a mapping",
        "yaml-syntax": "a file is not YAML",
        "yaml-tab": "a line is indented with a tab",
        "yaml-tag": "a YAML tag is not known, or does not fit its value",
        "data-size": "the data of a file is too large",
        "duplicate-key": "a mapping has a duplicate key",
    },
)
"""From text to data."""
DECLARATIONS = _of(
    "error",
    {
        "argument-repeated": "an argument is repeated",
        "argument-shape": "an item among the arguments is not an argument",
        "argument-slot": "an argument is a slot of Salt, which Holdfast does not support",
        "arguments-shape": "the arguments of a state are not a list",
        "duplicate-id": "two files declare the same ID",
        "exclude-shape": "an exclude cannot be read",
        "extend-ambiguous": "several states have the name that is extended",
        "extend-missing": "an extended state does not exist",
        "extend-shape": "an extend cannot be read",
        "function-missing": "a state has no function",
        "function-several": "a state has more than one function",
        "function-shape": "the function of a state contains a space",
        "id-shape": "an ID has no state type or function",
        "id-type": "an ID is not text",
        "include-environment": "an include names an unknown environment",
        "include-outside": "a relative include leads out of the states directory",
        "include-shape": "an include cannot be read",
        "name-type": "a name is not text",
        "names-repeated": "one name is listed twice, with different arguments",
        "names-shape": "an entry of names cannot be read",
        "requisite-shape": "a requisite cannot be read",
        "sls-missing": "a named state file does not exist",
        "sls-shape": "a state file contains no mapping of IDs",
        "state-repeated": "an ID declares one type twice",
        "state-type": "the type of a state is not text",
        "top-shape": "the top file cannot be read",
    },
)
"""From data to declarations."""
CALLS = _of(
    "error",
    {
        "accumulator-orphan": "no state of a file requires an accumulator",
        "argument-missing": "a required argument is missing",
        "argument-type": "an argument has a wrong type",
        "argument-value": "an argument has an invalid value",
        "contradiction": "two states declare one thing differently; a warning if the earlier one is `lenient`",
        "early-condition": "a state that takes effect before anything runs has a guard, or a requisite that is one",
        "function-lacking": "a state needs a function that its provider on this host lacks",
        "guard-call": "a guard calls a function that does not exist or that changes something",
        "identity-repeated": "two states cannot be told apart",
        "recv-sender": "an argument receives a value that no state sends, or that several states send",
        "recv-type": "a received value does not fit its argument",
        "requisite-ambiguous": "several states have the name that an _in requisite gives",
        "requisite-loop": "states require each other in a cycle",
        "requisite-missing": "a requisite names a state that does not exist",
        "source-absent": "a source in the states directory does not exist",
        "source-syntax": "the template of a managed file cannot be parsed, or uses an unknown filter or test",
        "reference-absent": "an argument refers to a state that is declared absent",
        "reference-kind": "an argument refers to a state of the wrong kind",
        "unknown-argument": "a state has no argument of this name",
        "unknown-function": "a state has no function of this name",
        "unknown-state": "there is no state of this name",
    },
)
"""From declarations to checked calls."""
FORMATTING = _of(
    "error",
    {
        "format-break": "a file to be formatted has lines that do not end with a newline character",
        "format-unsafe": "a file cannot be formatted without changing its meaning",
    },
)
"""Errors that only `holdfast fmt` reports."""
NOTES = _of(
    "warning",
    {
        "accumulator-unused": "an accumulator is for a file that no state with its texts manages",
        "argument-ignored": "an argument is accepted, and has no effect",
        "argument-reserved": "an argument has a name that means something else, and has no effect",
        "deprecated": "a kind or an argument should no longer be used",
        "contradiction-possible": "two states declare one thing differently, one of them under a condition",
        "function-rest": "a function has a second dot, and the text after it has no effect",
        "provider-missing": "no provider of an interface that a state needs works on this host",
        "order-word": "an order is neither a number nor first or last",
        "requisite-empty": "a requisite names nothing",
        "source-hidden": "a file never applies, because another one has the same SLS name",
        "top-environment": "the top file names an environment that is not this host's",
    },
)
"""Warnings of the compiler."""
LINT = _of(
    "warning",
    {
        "action-unguarded": "a command would run every time, because no guard says when it is needed",
        "argument-needs": "an argument has no effect without another argument",
        "argument-variable": "a managed file has no argument of this name, so that its template gets it as a variable",
        "extension-ignored": "the states directory contains Python modules for Salt, which are not loaded",
        "file-unreached": "no top file and no include refers to a state file",
        "ignore-unknown": "a comment ignores an unknown code",
        "key-missing": "a template or a state asks for a missing pillar or grain key, and a similar key exists",
        "managed-twice": "two states manage one thing",
        "needed-earlier": "a state comes before another one that provides what it needs",
        "owner-undeclared": "a file in the directory of a user declares no owner, so that root will own it",
        "refresh-missing": "a state watches or listens, but its kind has no refresh",
        "requisite-disabled": "a requisite is disabled in the settings",
        "requisite-never": "a requisite can never be met, so that the state never runs",
        "requisite-noop": "a state requires one that is never applied (noop)",
        "reverse-missing": "a state has `reverse`, but its kind does not support it",
        "secret-plain": "a state file contains a secret",
        "template-effect": "a template calls a function with side effects",
        "template-name": "a template uses an undefined name, perhaps in a branch that was not taken",
        "template-unknown": "a template uses an unknown function, filter or test, in a branch that was not taken",
        "value-none": "a value has the text None, which a template prints for a missing value",
        "watch-never": "a watched state never reports a change",
    },
)
"""Warnings that only `holdfast check` reports."""

PACKAGES = _of(
    "error",
    {
        "idl-base": "a class derives from something other than one class of the language or of the package",
        "idl-breaking": "a change would break users of the package, and its version does not announce that",
        "idl-config": "a package has more than one class that configures its provider",
        "idl-contradiction": "options of a field contradict each other",
        "idl-cycle": "resources, structs or aliases need each other, so that none of them could be created",
        "idl-default": "a default or a constant does not fit its type",
        "idl-duplicate": "two things have the same name, perhaps after its translation",
        "idl-enum": "an enumeration is empty or ambiguous, or has a value that is not text",
        "idl-evaluation": "sources cannot be evaluated",
        "idl-function": "a source contains a function",
        "idl-import": "a source imports something other than the language or a name of another source",
        "idl-limit": "a restriction is not for this type, or no value satisfies it",
        "idl-manifest": "the file package.yaml is missing or wrong",
        "idl-module-name": "the name of a source or of its folder is not allowed",
        "idl-name": "a name is not allowed, or is used before its declaration",
        "idl-option": "there is no option of this name",
        "idl-option-value": "an option has a wrong value",
        "idl-output": "a generated file cannot be written",
        "idl-output-input": "a field that the provider sets is used as an input",
        "idl-package": "a package has no sources",
        "idl-reference": "a reference leads to something other than a resource",
        "idl-reserved": "a field has a name that means something else",
        "idl-resource-only": "an option is used outside of resources",
        "idl-rule": "a rule is unknown, or has no meaning for its fields",
        "idl-schema": "the file of an older schema cannot be read",
        "idl-stale": "a generated file differs from what its sources would generate",
        "idl-statement": "a source contains a statement that is not part of the language",
        "idl-syntax": "a source is not Python",
        "idl-target": "there is no target of this name, or it fails",
        "idl-type": "a type is not part of the language",
        "idl-union": "the types of a union cannot be told apart",
        "idl-value": "a value is computed, or is not a value of the language",
        "idl-variable": "a source contains a global variable",
    },
)
"""Errors in the sources of resource packages."""

SECTIONS: Mapping[str, Mapping[str, ProblemCode]] = {
    "Warnings that only `holdfast check` reports": LINT,
    "Warnings of the compiler, which the agent logs, too": NOTES,
    "Errors in files, settings and kinds": SOURCES,
    "Errors of rendering": RENDERING,
    "Errors in declarations": DECLARATIONS,
    "Errors in calls and their requisites": CALLS,
    "Errors that only `holdfast fmt` reports": FORMATTING,
    "Errors that only `holdfast idl` reports": PACKAGES,
}
"""Title -> codes, for people."""
CODES: Mapping[str, ProblemCode] = {code: known for codes in SECTIONS.values() for code, known in codes.items()}
"""All codes."""


def demand_warning(code: str) -> None:
    """Raise `ValueError` if a code is unknown, or is the code of an error: errors cannot be ignored."""
    known = CODES.get(code)
    if known is None:
        near = nearest(code, CODES)
        raise ValueError(
            f"there is no code {code!r}"
            + (f"; did you mean {near!r}?" if near else "; `holdfast doc codes` lists them")
        )
    if known.level == "error":
        raise ValueError(f"{code!r} is an error, which cannot be ignored")
