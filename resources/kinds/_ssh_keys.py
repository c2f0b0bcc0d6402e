"""Public keys of OpenSSH and lines of authorized_keys files, as sshd(8) reads them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.errors import Final
from holdfast.resources.fields import Text, parse_list
from holdfast.resources.kinds._lines import split

TYPE = r"(?:sk-)?(?:ssh|ecdsa|rsa)-[\w.@+-]+"
"""Matches the name of a key type. No option of a key begins like this."""
_KEY = re.compile(rf"({TYPE})[ \t]+([^ \t]+)(?:[ \t]+(.*))?", re.DOTALL)
SHORT: Mapping[str, str] = {
    **dict.fromkeys(("r", "rsa"), "ssh-rsa"),
    **dict.fromkeys(("d", "dsa", "dss"), "ssh-dss"),
    **dict.fromkeys(("e", "ecdsa"), "ecdsa-sha2-nistp256"),
    "ed25519": "ssh-ed25519",
}
"""Salt's short name of a key type -> its full name."""


class AuthorizedKey(NamedTuple):
    """One key with its options, as in a line of an authorized_keys file."""

    options: str
    enc: str
    """Type of the key; empty: the type in the key data."""
    key: str
    """The key in base64."""
    comment: str

    def line(self) -> str:
        """Return the line without its line break."""
        return " ".join(filter(None, (self.options, self.enc or inner_type(self.key), self.key, self.comment)))

    def called(self) -> str:
        """Return the name of the key in messages."""
        return f"key {self.comment or f'...{self.key[-16:]}'}"

    def demand(self) -> None:
        """Raise `Final` unless the data are a key of the declared type."""
        inner = inner_type(self.key)
        if self.enc and inner != self.enc and not (inner == "ssh-rsa" and self.enc.startswith("rsa-sha2-")):
            raise Final(
                f"cannot use {self.called()}: its type is {inner}, not {self.enc}; correct `enc`, or leave it out"
            )


def inner_type(key: str) -> str:
    """Return the type in the data of a key in base64. Raises `Final` if it is not a key."""
    try:
        data = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    length = int.from_bytes(data[:4])
    name = data[4 : 4 + length].decode("ascii", "replace")
    exact = base64.b64encode(data).decode() == key
    if not exact or len(data) <= 4 + length or not re.fullmatch(TYPE, name):
        shown = key if len(key) <= 40 else f"{key[:40]}..."
        raise Final(f"cannot use {shown!r}: it is not a public key in base64; copy the whole line of the .pub file")
    return name


def parsed(line: str) -> AuthorizedKey | None:
    """Return the key of a line of an authorized_keys file; None for comments, blank lines and lines that sshd ignores.

    For sshd, a line ends at a NUL character, so a key before a NUL is valid.
    """
    text = line.partition("\0")[0].strip(" \t\r\n")
    if not text or text.startswith("#"):
        return None
    options = ""
    found = _KEY.fullmatch(text)
    if found is None:
        end = options_end(text)
        options, found = text[:end], _KEY.fullmatch(text[end:].lstrip(" \t"))
    if found is None:
        return None
    return AuthorizedKey(options, found[1], "".join(found[2].split()), " ".join((found[3] or "").split()))


def options_end(text: str) -> int:
    """Return the end of the options at the beginning of a text: the first blank outside of double quotes."""
    quoted, place = False, 0
    while place < len(text) and (quoted or text[place] not in " \t"):
        if text.startswith('\\"', place):
            place += 1
        elif text[place] == '"':
            quoted = not quoted
        place += 1
    return place


def unbalanced(options: str) -> bool:
    """Return whether options have an unclosed double quote."""
    return options_end(f"{options} x") > len(options)


def declared(text: str, enc: str, options: str, comment: str) -> AuthorizedKey:
    """Parse `[options] [type] key [comment]`, as a state declares a key; the arguments supply missing parts.

    Raises `ValueError` if the text is not a valid line.
    """
    whole = parsed(text)
    if whole is not None:
        return whole._replace(options=whole.options or options, comment=whole.comment or comment)
    key, _, said = text.strip().partition(" ")
    if not re.fullmatch(r"[A-Za-z0-9+/=._-]+", key):
        raise ValueError("it must be a public key as in a .pub file: `ssh-ed25519 AAAA... comment`")
    return AuthorizedKey(options, enc, key, " ".join(said.split()) or comment)


def lines(text: str) -> Iterator[tuple[str, AuthorizedKey | None]]:
    """Yield each line of a file, with its line break, and its key."""
    for line in split(text):
        yield line, parsed(line)


# -- fields ----------------------------------------------------------------------------------------------------------


@accepts(str, pattern=rf"[a-z0-9]+|{TYPE}")
def key_type(value: str) -> str:
    """Return the full name of a key type. Raises `ValueError`."""
    name = SHORT.get(value, value)
    if not re.fullmatch(TYPE, name):
        raise ValueError(f"{value!r} is not a key type: write ed25519, ecdsa, rsa, or the first word of the .pub file")
    return name


@accepts(str, list[str], None)
def joined(value: object) -> object:
    """Join options to one text with commas."""
    items = parse_list(value)
    several = isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items)
    return ",".join(items) if several else value  # type: ignore[arg-type] # all are texts


@accepts(pattern=r"[^\0-\x1f]*")
def known_options(value: str) -> str:
    """Check options of keys. Raises `ValueError` for characters that would end them early."""
    if re.search(r"[\0-\x1f\x7f]", value) or unbalanced(value) or re.search(r"\s", re.sub(r'"(\\"|[^"])*"', "", value)):
        raise ValueError(
            'options must not have blanks outside of "..." or control characters: command="/bin/x y",no-pty'
        )
    return value


@accepts(pattern=r"([^%\0-\x20]|%[hu%])+")
def known_path(value: str) -> str:
    """Check the path of an authorized_keys file. Raises `ValueError`."""
    if not re.fullmatch(r"([^%\0-\x20\x7f]|%[hu%])+", value):
        raise ValueError(
            "the path must not have blanks; in it, %h is the home directory, %u the user and %% a percent sign"
        )
    return value


KeyType = Annotated[Text, AfterValidator(key_type)]
"""The type of a key."""
KeyOptions = Annotated[str, BeforeValidator(joined), AfterValidator(known_options)]
"""Options of a key: a list, or one text with commas."""


@accepts(pattern=r"([^%\0-\x1f]|%[hu%])+")
def known_paths(value: str) -> str:
    """Check paths of authorized_keys files, separated by blanks. Raises `ValueError`."""
    if not value.split() or re.search(r"[\0-\x1f\x7f]", value):
        raise ValueError("it must be the path of a file")
    return " ".join(known_path(path) for path in value.split())


KeyPath = Annotated[Text, AfterValidator(known_path)]
"""The path of a file, possibly in the home directory of a user."""
KeyPaths = Annotated[Text, AfterValidator(known_paths)]
"""Paths of authorized_keys files, as in sshd_config(5)."""
