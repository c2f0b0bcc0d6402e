"""POSIX ACLs as the kernel stores them (acl(5)): entries of users and groups, and the mask that limits them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.fields import Text

USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
ENTRY = struct.Struct("<HHI")
VERSION = struct.pack("<I", 2)
UNDEFINED = 0xFFFFFFFF
"""The id in entries that name no user or group."""
NAMED = {USER, GROUP}
LIMITED = {USER, GROUP_OBJ, GROUP}
"""Entries that the mask limits."""

Key = tuple[int, int]
"""Tag of an entry, and its uid or gid."""
Acl = Mapping[Key, int]
"""Entry -> permissions, as three bits."""


def base(tag: int) -> Key:
    """Return the key of an entry that names no user or group."""
    return tag, UNDEFINED


def decoded(data: bytes) -> Acl:
    """Return the entries of an extended attribute; none if it is empty."""
    return {
        (tag, number): granted
        for tag, granted, number in (
            ENTRY.unpack_from(data, at) for at in range(len(VERSION), len(data) - ENTRY.size + 1, ENTRY.size)
        )
    }


def encoded(acl: Acl) -> bytes:
    """Return the extended attribute, with the entries in the order that the kernel requires."""
    return VERSION + b"".join(ENTRY.pack(tag, acl[tag, number], number) for tag, number in sorted(acl))


def of_mode(mode: int) -> Acl:
    """Return the ACL that corresponds to a mode."""
    return {base(USER_OBJ): mode >> 6 & 7, base(GROUP_OBJ): mode >> 3 & 7, base(OTHER): mode & 7}


def put(acl: Acl, wanted: Mapping[Key, int]) -> Acl:
    """Return the ACL with more entries. Set the mask to permit what all entries grant, unless `wanted` has the mask."""
    new = {**acl, **wanted}
    if any(tag in NAMED for tag, _ in new) and base(MASK) not in wanted:
        new[base(MASK)] = _union(new)
    return new


def without(acl: Acl, gone: Iterable[Key]) -> Acl:
    """Return the ACL without entries. Drop a mask that limits only the group, and limit the group itself instead."""
    left = {key: granted for key, granted in acl.items() if key not in {*gone}}
    if any(tag in NAMED for tag, _ in left) or base(MASK) not in left:
        return left
    mask = left.pop(base(MASK))
    return {key: granted & mask if key == base(GROUP_OBJ) else granted for key, granted in left.items()}


def _union(acl: Acl) -> int:
    granted = 0
    for (tag, _), each in acl.items():
        granted |= each if tag in LIMITED else 0
    return granted


def written(granted: int) -> str:
    """Return permissions as text: `r-x`."""
    return "".join(letter if granted & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))


def granted(perms: str, *, executable: bool) -> int:
    """Return permissions as bits. `X` is `x` for directories and for files that already have an execute permission."""
    if perms.isdigit():
        return int(perms)
    bits = {"r": 4, "w": 2, "x": 1, "X": 1 if executable else 0}
    total = 0
    for letter in perms:
        total |= bits.get(letter, 0)
    return total


TYPES = {"u": "user", "g": "group", "m": "mask", "o": "other"}
"""First letter of an entry type -> the type."""


@accepts(pattern=r"((d|default):)?(u(ser)?|g(roup)?|m(ask)?|o(ther)?)s?")
def known_type(value: str) -> str:
    """Return the full name of an entry type. Raises `ValueError`."""
    prefix, colon, word = value.rpartition(":")
    full = TYPES.get(word.rstrip("s")[:1], "")
    if (colon and prefix not in {"d", "default"}) or not full or not full.startswith(word.removesuffix("s")):
        raise ValueError(f"{value!r} is not an entry type: write user, group, mask or other, possibly after default:")
    return f"default:{full}" if colon else full


AclType = Annotated[Text, AfterValidator(known_type)]
"""The full name of an entry type."""
