"""The parser of OpenPGP keys: fingerprints, ASCII armor, and data that are not a public key."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.resources.openpgp import NoKey, armored, binary, public_keys
from public_key import FINGERPRINT, KEY


@given(st.binary(max_size=300))
def test_no_data_crash_the_parser_of_keys(data):
    """The result is keys, or the error `NoKey`. Armored data are decoded exactly."""
    assert binary(armored(data).encode()) == data
    for each in (data, binary(KEY.encode())[:-1] + data, b"-----" + data):
        with suppress(NoKey):
            assert public_keys(binary(each))


def test_keys_are_told_apart():
    """A public key has its fingerprint; a secret key, a signature and damaged armor are refused."""
    (key,) = public_keys(binary(KEY.encode()))
    assert key.fingerprint == FINGERPRINT
    assert key.is_named("0x835cd4f3")
    assert not key.is_named("0x835cd4f4")
    for data, told in (
        (bytes([0x80 | 5 << 2, 1, 4]), "a secret key"),
        (bytes([0x80 | 6 << 2, 1, 3]), "version 3"),
        (bytes([0x80 | 2 << 2, 1, 4]), "does not begin with a public key"),
        (KEY.replace("=A0S0", "=AAAA").encode(), "the checksum differs"),
        (KEY.replace("PUBLIC KEY", "PRIVATE KEY").encode(), "it is a PGP private key block"),
        (KEY[:-40].encode(), "incomplete"),
        (b"", "it is empty"),
        (b"\x99" * (1 << 21), "more than 1 MiB"),
        (base64.b64encode(b"x"), "not an OpenPGP key"),
    ):
        with pytest.raises(NoKey, match=told):
            public_keys(binary(data))
