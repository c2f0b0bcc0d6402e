"""OpenPGP public keys: ASCII armor, and the fingerprints of the keys in a file (RFC 4880, RFC 9580).

The parser verifies no signature: it finds out only whether a file is a public key, and which one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

LIMIT = 1 << 20
"""Greatest size of a file of keys, in bytes."""
BLOCK = re.compile(
    rb"-----BEGIN PGP (PUBLIC KEY BLOCK|[A-Z ]+)-----[ \t]*\r?\n(.*?)\r?\n-----END PGP \1-----", re.DOTALL
)
KEY, SUBKEY = 6, 14
SECRET = frozenset({5, 7})
"""Packets of secret keys."""
KNOWN = frozenset({2, KEY, 12, 13, SUBKEY, 17, 21})
"""Packets in a file of public keys: signatures, keys, trust, names of users, padding."""
NAMED = re.compile(r"(?:0x)?([0-9A-Fa-f]{8}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64})")
"""How people name a key: by the end of its fingerprint, or by all of it."""


class NoKey(ValueError):
    """Data are not a public key; the text says why."""


class PublicKey(NamedTuple):
    """One primary key of a file."""

    fingerprint: str
    """Capital hexadecimal digits."""

    def is_named(self, keyid: str) -> bool:
        """Return whether the end of the fingerprint is `keyid` (see `NAMED`).

        A subkey does not count: signatures are not verified, so anyone could have added the subkey of another key.
        """
        return self.fingerprint.endswith(keyid.upper().removeprefix("0X"))


def binary(data: bytes) -> bytes:
    """Return the packets of a file of keys, which may be in ASCII armor. Raises `NoKey`."""
    if len(data) > LIMIT:
        raise NoKey(f"it has more than {LIMIT >> 20} MiB")
    if not data.lstrip().startswith(b"-----"):
        return data
    blocks = list(BLOCK.finditer(data))
    if not blocks:
        raise NoKey("its ASCII armor is incomplete")
    if other := next((block[1] for block in blocks if block[1] != b"PUBLIC KEY BLOCK"), b""):
        raise NoKey(f"it is a PGP {other.decode().lower()}")
    return b"".join(_unarmored(block[2]) for block in blocks)


def _unarmored(block: bytes) -> bytes:
    """Return the data of one block of ASCII armor: headers, an empty line, lines of base64, and a checksum."""
    lines = [line.strip() for line in block.split(b"\n")]
    body = lines[lines.index(b"") + 1 :] if b"" in lines else lines
    check = body.pop()[1:] if body and re.fullmatch(rb"=[^=]{4}", body[-1]) else b""
    try:
        data, known = (base64.b64decode(text, validate=True) for text in (b"".join(body), check))
    except binascii.Error:
        raise NoKey("its ASCII armor is damaged") from None
    if known and known != _crc24(data):
        raise NoKey("its ASCII armor is damaged: the checksum differs")
    return data


def armored(data: bytes) -> str:
    """Return packets in ASCII armor."""
    text = base64.b64encode(data).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    check = base64.b64encode(_crc24(data)).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines}\n={check}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def _crc24(data: bytes) -> bytes:
    """Return the checksum of ASCII armor."""
    crc, table = 0xB704CE, _crc24_table()
    for byte in data:
        crc = (crc << 8 & 0xFFFFFF) ^ table[crc >> 16 ^ byte]
    return crc.to_bytes(3, "big")


@cache
def _crc24_table() -> tuple[int, ...]:
    """Return the checksum of each byte. Without this table, a large file would block the event loop for a second."""
    table = [byte << 16 for byte in range(256)]
    for _ in range(8):
        table = [crc << 1 ^ (0x1864CFB if crc & 0x800000 else 0) for crc in table]
    return tuple(table)


def public_keys(data: bytes) -> list[PublicKey]:
    """Return the keys in packets. Raises `NoKey` if there are none, or if there is anything else."""
    found: list[PublicKey] = []
    for tag, body in _packets(data):
        if tag in SECRET:
            raise NoKey("it contains a secret key, which must not be given away")
        if tag not in KNOWN and tag < FIRST_PRIVATE:
            raise NoKey("it is not an OpenPGP key")
        if tag == KEY:
            found.append(PublicKey(_fingerprint(body)))
        elif not found:
            raise NoKey("it is not an OpenPGP key: it does not begin with a public key")
        elif tag == SUBKEY:
            _fingerprint(body)  # this raises NoKey for a version that no program accepts
    if not found:
        raise NoKey("it is empty")
    return found


FIRST_PRIVATE = 40
"""Lowest number of the packets that a reader must skip if it does not know them (RFC 9580, 4.3)."""


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and body of each packet. Raises `NoKey` for data that do not consist of packets."""
    position = 0
    while position < len(data):
        head = data[position]
        if not head & 0x80:
            raise NoKey("it is not an OpenPGP key")
        tag = head & 0x3F if head & 0x40 else (head >> 2) & 0x0F
        start, length = _length(data, position + 1, head)
        position = start + length
        if position > len(data):
            raise NoKey("it is not an OpenPGP key, or it is cut off")
        yield tag, data[start:position]


def _length(data: bytes, position: int, head: int) -> tuple[int, int]:
    """Return where the body of a packet starts, and how long it is."""
    first = data[position] if position < len(data) else 0
    if head & 0x40:  # the new format
        size = 1 if first < 192 else 2 if first < 224 else 5 if first == 255 else 0
    else:
        size = (1, 2, 4, 0)[head & 3]
    rest = data[position : position + size]
    if not size or len(rest) < size:
        raise NoKey("it is not an OpenPGP key, or it is cut off")
    if head & 0x40 and size == 2:
        return position + 2, ((first - 192) << 8) + rest[1] + 192
    number = rest[1:] if head & 0x40 and size == 5 else rest
    return position + size, int.from_bytes(number, "big")


def _fingerprint(body: bytes) -> str:
    """Return the fingerprint of a key. Raises `NoKey` for the insecure versions before 4, and for unknown ones."""
    version = body[0] if body else 0
    if version == 4:
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    if version in (5, 6):
        prefix = b"\x9a" if version == 5 else b"\x9b"
        return hashlib.sha256(prefix + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise NoKey(f"it has a key of version {version}, which no present program accepts")
