"""The text of a known_hosts file: find the lines for a host, as ssh(1) does."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.resources.kinds._lines import split
from holdfast.resources.kinds._ssh_keys import TYPE

HASHED = re.compile(r"\|1\|([A-Za-z0-9+/=]+)\|([A-Za-z0-9+/=]+)")
_LINE = re.compile(rf"[ \t]*(?P<hosts>[^\s#@]\S*)[ \t]+(?P<enc>{TYPE})[ \t]+(?P<key>[^ \t\r\n\0]+)(?P<rest>[^\n]*\n?)")
DIGESTS = {"md5": 16, "sha1": 20, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
"""Name of a hash -> length of its digests in bytes."""


class KnownKey(NamedTuple):
    """One key of a host."""

    enc: str
    key: str

    def told(self, host: str) -> dict[str, str]:
        """Return the key as Salt reports it."""
        return {"hostname": host, "enc": self.enc, "key": self.key, "fingerprint": fingerprint(self.key, "sha256")}


def address(host: str, port: int | None) -> str:
    """Return a host and a port in the notation of known_hosts files."""
    return host.lower() if port in {None, 22} else f"[{host.lower()}]:{port}"


def hashed(name: str) -> str:
    """Return the hash of a name, so that readers of the file do not learn it."""
    salt = os.urandom(20)
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(_digest(salt, name)).decode()}"


def is_name(written: str, name: str) -> bool:
    """Return whether a plain or hashed name on a line is this name. Patterns with `*` do not count."""
    found = HASHED.fullmatch(written)
    if found is None:
        return written.lower() == name
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in found.groups())
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(_digest(salt, name), digest)


def _digest(salt: bytes, name: str) -> bytes:
    return hmac.digest(salt, name.encode(), "sha1")


def keys_of(text: str, name: str) -> Iterator[KnownKey]:
    """Yield the keys of a host. Skip lines with a marker such as `@revoked`."""
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found and any(is_name(written, name) for written in found["hosts"].split(",")):
            yield KnownKey(found["enc"], found["key"])


def is_plain(text: str, name: str) -> bool:
    """Return whether a line has the plain name of a host, not only a hash of it."""
    found = filter(None, map(_LINE.fullmatch, text.split("\n")))
    return any(written.lower() == name for line in found for written in line["hosts"].split(","))


def without(text: str, name: str, kept: str | None = None, enc: str | None = None) -> str:
    """Return the text without the keys of a host, except for the first line of the key `kept`.

    With `enc`, remove only keys of this type. Other names on a line stay with its key.
    """
    new, seen = [], False
    for line in split(text):
        found = _LINE.fullmatch(line)
        hosts = found["hosts"].split(",") if found else []
        others = [written for written in hosts if not is_name(written, name)]
        if found is None or len(others) == len(hosts) or enc not in {None, found["enc"]}:
            new.append(line)
        elif found["key"] == kept and not seen:
            seen = True
            new.append(line)
        elif others:
            new.append(f"{','.join(others)} {found['enc']} {found['key']}{found['rest']}")
    return "".join(new)


def fingerprint(key: str, hashing: str) -> str:
    """Return the fingerprint of a key in base64 in Salt's notation: hexadecimal digits with colons."""
    try:
        data = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return hashlib.new(hashing, data, usedforsecurity=False).digest().hex(":")


def parsed_fingerprint(text: str) -> tuple[str, str]:
    """Parse a fingerprint in any common notation; return the hash algorithm and the notation of `fingerprint`.

    These are `SHA256:` with base64, and hexadecimal digits with or without `MD5:`. Raises `ValueError`.
    """
    word, colon, rest = text.partition(":")
    hashing = word.lower() if colon and word.lower() in DIGESTS else ""
    text = rest if hashing else text
    try:
        digest = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        digest = _from_base64(text)
    known = {length: name for name, length in DIGESTS.items()}
    if len(digest) not in known or hashing not in {"", known[len(digest)]}:
        raise ValueError(
            f"{text!r} is not a fingerprint: write what `ssh-keygen -l` prints, SHA256:... or MD5:aa:bb:..."
        )
    return known[len(digest)], digest.hex(":")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
