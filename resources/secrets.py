"""Secrets: the names and forms by which they are recognised, and the `Redactor` that replaces them by a mask.

Everything that Holdfast shows (log, control socket, one-shot verbs, `show`, errors of the compiler) passes through a
`Redactor` first.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

MASK = "********"
"""Shown in place of a secret."""
NAME = re.compile(
    r"(^|[_.-])(password|passwd|passphrase|secret|token|credential"
    r"|(api|private|secret|access|auth|encryption)[_-]?key)s?$",
    re.IGNORECASE,
)
"""Keys whose values are secret, in singular and plural."""
COLLECTION = re.compile(
    r"(^|[_.-])(password|passwd|passphrase|secret|token|(api|private|secret|access|auth|encryption)[_-]?key)s$",
    re.IGNORECASE,
)
"""Keys of mappings in which every value is secret."""
SHORTEST = 6
"""Least number of characters of a secret that is redacted within text: shorter secrets are parts of too many words."""
URL = re.compile(r"(://(?:[^\s/:@'\"]*:|(?=[\w.~%+-]{20,}@)))([^\s/'\"]+)(?=@)")
"""`://user:password@`, or `://token@` with a word that is too long for the name of a user."""
DSN = re.compile(r"""((?:password|passwd|pwd)\s?=\s?)("[^"]*"|'[^']*'|[^\s;&,'"]+)""", re.IGNORECASE)
"""`password=...` of a connection string."""
NEAR_DSN = re.compile(r"(?:passwo?r?d|pwd)[^=]{0,6}=", re.IGNORECASE)
"""Finds a possible `DSN` in JSON or in Python's notation, which escape white space."""
ADDRESS = re.compile(r"""(\b[^\s:/@'"]{1,64}:)([^\s:/@'"]{1,128})(?=@(?:tcp|unix)\()""")
"""`user:password@tcp(...)`.

The lengths are bounded because users choose the text: matching must not take long for any text.
"""
PLAIN = re.compile(r"[A-Za-z0-9]+")
"""Characters that no form of quoting changes."""


class Redactor:
    """Replaces secrets in text and data by `MASK`.

    `data` are the mappings that hold the secrets, above all the pillar. Each line of a secret is replaced: as written,
    quoted for a URL, and in base64, alone or within other text. Passwords in URLs and connection strings are replaced
    even if `data` do not contain them.
    """

    def __init__(self, *data: Any) -> None:
        secrets = {text.strip() for each in data for text in _secrets(each)}
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._probes = frozenset(max(PLAIN.findall(form), key=len, default="") for form in forms)
        """The longest part of each form that is the same in JSON and in Python's notation."""

    def concerns(self, written: str) -> bool:
        """Return whether data may hold something to redact; `written` is the data as JSON or in Python's notation."""
        if self._probes:
            words = " ".join(set(PLAIN.findall(written)))  # each word once: many rows share most of their words
            if any(probe in words for probe in self._probes):
                return True
        return _may_have_url(written) or _may_have_dsn(written)

    def __call__(self, value: Any) -> Any:
        """Return the text, mapping, list or tuple with its secrets redacted; the same object if there are none."""
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, (tuple, list, dict, Mapping)):  # the abstract class last: its check is slow
            return value
        if not self.concerns(repr(value)):
            return value
        whole = "\n".join(_texts(value))
        return value if self._text(whole) == whole else self._inside(value)

    def masked(self, data: Any, *, below: bool = False) -> Any:
        """Redact data that are shown as written; a value is masked whole if its key names a secret."""
        if isinstance(data, Mapping):
            return {
                self._key(key): self.masked(value, below=_is_secret(key, value, below=below))
                for key, value in data.items()
            }
        if isinstance(data, (list, tuple)):
            return [self.masked(value, below=below) for value in data]
        return MASK if below and _is_text(data) else self(data)

    def named(self, data: Any) -> Any:
        """Redact data that are shown as written; the keys of the mapping, if it is one, are names of things.

        The value of a package `passwd`, unlike that of a field `passwd`, is not a secret.
        """
        if isinstance(data, Mapping):
            return {self._key(key): self.masked(value) for key, value in data.items()}
        return self.masked(data)

    def _inside(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self._key(key): self(each) for key, each in value.items()}
        return [self(each) for each in value] if isinstance(value, list) else tuple(self(each) for each in value)

    def _key(self, key: Any) -> Any:
        """Redact a key unless it is a word in lower case.

        Names of fields are such words: if a password is `comment`, the field `comment` must keep its name.
        """
        return self._text(key) if isinstance(key, str) and not (key.isidentifier() and key.islower()) else key

    def _text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        if "@" in text:
            text = URL.sub(rf"\1{MASK}", text) if "://" in text else text
            text = ADDRESS.sub(rf"\1{MASK}", text) if "(" in text else text
        return DSN.sub(rf"\1{MASK}", text) if "=" in text else text


def _may_have_url(written: str) -> bool:
    return "@" in written and (
        ("://" in written and URL.search(written) is not None) or "@tcp(" in written or "@unix(" in written
    )


def _may_have_dsn(written: str) -> bool:
    return "=" in written and any(word in written for word in _PASSWORD) and NEAR_DSN.search(written) is not None


def _is_secret(key: object, value: object, *, below: bool) -> bool:
    """Return whether the value of a key is secret. A mapping is secret only under a plural (`COLLECTION`)."""
    return below or (COLLECTION if isinstance(value, Mapping) else NAME).search(str(key)) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _secrets(data: Any, *, below: bool = False) -> Iterator[str]:
    """Yield the texts below keys that name secrets, and the passwords in URLs."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _secrets(value, below=_is_secret(key, value, below=below))
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _secrets(value, below=below)
    elif below and _is_text(data):
        yield str(data)
    elif isinstance(data, str) and "://" in data:
        yield from (found[2] for found in URL.finditer(data))


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may appear in text."""
    yield from (line for line in secret.splitlines() if len(line) >= SHORTEST)
    yield from (form for form in {quote(secret), quote(secret, safe="")} if form != secret)
    data = secret.encode(errors="surrogateescape")
    for before in range(3):  # bytes before the secret in the encoded data shift its bits
        text = base64.b64encode(bytes(before) + data).decode()
        end = (before + len(data)) % 3
        core = text[(0, 2, 3)[before] : len(text) - (0, 3, 2)[end]]
        if len(core) >= SHORTEST:
            yield from {core, core.translate(_URLSAFE)}


_URLSAFE = str.maketrans("+/", "-_")
_PASSWORD = ("assw", "ASSW", "pwd", "Pwd", "PWD")
"""One of these is part of each password key of a connection string."""


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
