"""Verifiers of passwords: SCRAM-SHA-256, as PostgreSQL stores them (RFC 5802, RFC 7677).

The provider computes verifiers itself, so that no password reaches the server or its log. To find out whether a role
has a certain password, the provider computes the verifier again with the salt of the stored one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
import stringprep
import unicodedata
from functools import lru_cache
from hashlib import pbkdf2_hmac, sha256

ITERATIONS = 4096
"""Rounds of a new verifier; the number is PostgreSQL's default."""
VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})")
MANY = 1_000_000
"""Greatest number of rounds that the provider computes."""


def verifier(password: str) -> str:
    """Return a new verifier. A password that is a verifier already is returned unchanged."""
    return password if VERIFIER.fullmatch(password) else _made(password, secrets.token_bytes(16), ITERATIONS)


def belongs(stored: str | None, password: str) -> bool:
    """Return whether a stored verifier is that of a password."""
    found = VERIFIER.fullmatch(stored or "")
    if stored is None or found is None:
        return False
    if VERIFIER.fullmatch(password):
        return hmac.compare_digest(stored, password)
    try:
        salt, rounds = base64.b64decode(found[2], validate=True), int(found[1])
    except binascii.Error:
        return False
    return 0 < rounds <= MANY and hmac.compare_digest(stored, _made(password, salt, rounds))


@lru_cache(4096)
def _made(password: str, salt: bytes, rounds: int) -> str:
    """Return a verifier. Computing it takes some milliseconds, so the process caches all results."""
    salted = pbkdf2_hmac("sha256", prepared(password), salt, rounds)
    stored = sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    text = (base64.b64encode(each).decode() for each in (salt, stored, server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(rounds, *text)


def prepared(password: str) -> bytes:
    """Return the bytes of a password after SASLprep (RFC 4013); as PostgreSQL does, unchanged if it is not allowed."""
    raw = password.encode()
    if password.isascii():
        return raw
    mapped = (" " if stringprep.in_table_c12(each) else each for each in password if not stringprep.in_table_b1(each))
    text = unicodedata.normalize("NFKC", "".join(mapped))
    return raw if not text or any(map(_refused, text)) or _mixed(text) else text.encode()


def _refused(character: str) -> bool:
    tables = (
        stringprep.in_table_a1,
        stringprep.in_table_c12,
        stringprep.in_table_c21_c22,
        stringprep.in_table_c3,
        stringprep.in_table_c4,
        stringprep.in_table_c5,
        stringprep.in_table_c6,
        stringprep.in_table_c7,
        stringprep.in_table_c8,
        stringprep.in_table_c9,
    )
    return any(table(character) for table in tables)


def _mixed(text: str) -> bool:
    """Return whether a text breaks the rule for text that is written from right to left."""
    if not any(map(stringprep.in_table_d1, text)):
        return False
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return not ends or any(map(stringprep.in_table_d2, text))
