"""Rules on secrets in state files: all readers of the states can read them. Reports never show a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.resources.secrets import NAME
from holdfast.states.compile.check import shape_of
from holdfast.states.compile.low import CONTROL
from holdfast.states.errors import Location, Problem
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.lint.values import stands_there, texts
from holdfast.states.template.analysis import literals

HINT = "move it to the pillar, and write {{ pillar['...'] }}"
NO_SECRET = re.compile(
    r"[!*x]{1,2}|/\S*|\w+://\S*|\$\{?\w+\}?|__slot__:.*|true|false|yes|no|none|null|absent|present|\d{1,3}",
    re.IGNORECASE,
)
"""Values that are not secrets: a locked password, a path, a variable, a word."""
HASH = re.compile(r"\$(?:[1-7]|2[abxy]|y|gy|md5|sha1|argon2\w*|scrypt)\$\S+")
"""Hash of a password: enough to try passwords against it."""
SHAPES = {
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "an AWS access key": r"\b(?:AKIA|ASIA)[A-Z2-7]{9}(?!EXAMPLE)[A-Z2-7]{7}\b",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{36,})\b",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20}\b",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{20,}\b",
    "a Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}\b",
    "a Google API key": r"\bAIza[A-Za-z0-9_-]{35}\b",
    "a password in a URL": (
        r"\b[a-z][a-z0-9+.-]*://[^\s:/@{}$<>'\"]+:(?!password@|pass@|secret@|\*+@|x+@)[^\s:/@{}$<>'\"]+@"
    ),
}
"""Patterns of well-known secrets."""
_SHAPES = re.compile("|".join(f"(?P<s{index}>{shape})" for index, shape in enumerate(SHAPES.values())))


@rule
def known_shapes(subject: Subject) -> Iterator[Problem]:
    """Yield text with the form of a well-known secret."""
    for text in subject.texts:
        for found in _SHAPES.finditer(text.text):
            what = list(SHAPES)[int((found.lastgroup or "s0")[1:])]
            line = text.text.count("\n", 0, found.start()) + 1
            column = found.start() - text.text.rfind("\n", 0, found.start())
            yield Problem(
                Location(str(text.path), line, column), "secret-plain", f"this looks like {what}, in plain text", HINT
            )


@rule
def secret_arguments(subject: Subject) -> Iterator[Problem]:
    """Yield the values of arguments that are declared as secret, or have the name of a secret."""
    for call in subject.calls:
        secret = shape_of(type(call.resource)).secrets
        for key, item in call.chunk.items.items():
            if key in CONTROL:
                continue
            for name, value, mark in texts(key, item.value, item.mark):
                if (
                    (name in secret or NAME.search(name))
                    and not NO_SECRET.fullmatch(value)
                    and stands_there(item, value, mark)
                ):
                    problem = item.document.problem(mark, "secret-plain", _said(name, value), HINT)
                    yield problem._replace(text="")


@rule
def secrets_of_templates(subject: Subject) -> Iterator[Problem]:
    """Yield texts that a template assigns to names of secrets."""
    for template in subject.templates:
        for name, text, line in literals(template):
            if NAME.search(name) and not NO_SECRET.fullmatch(text):
                yield template.problem(line, name, "secret-plain", _said(name, text), HINT, secret=True)


def _said(name: str, value: str) -> str:
    """Return the message for a secret."""
    if HASH.fullmatch(value.strip()):
        return f"a state file contains the hash of {name!r}: all who can read the states can try passwords against it"
    return f"{name!r} is given in plain text"
