"""Hashes of write-only arguments. They show only that an argument has changed since it was last sent."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from holdfast.agent.remote.kind import PROVED, RemoteKind
from holdfast.resources.context import Context

COST = 1 << 11
"""Cost of scrypt: 2 MiB and a few milliseconds, so that a hash does not lead back to a short password."""


async def proof(ctx: Context, kind: RemoteKind, inputs: Mapping[str, Any]) -> str:
    """Return the salted hash of the write-only arguments; empty if there are none."""
    if not (data := _payload(kind, inputs)):
        return ""
    made = await ctx.blocking(_hash, data, secrets.token_hex(16))
    _keep(kind, data, made)
    return str(made)


async def proves(ctx: Context, kind: RemoteKind, inputs: Mapping[str, Any], known: str) -> bool:
    """Return whether a hash is that of the write-only arguments. The computation is done once for equal arguments."""
    data = _payload(kind, inputs)
    if not known:
        return False
    if kind.proved.get(_short(data)) != known:
        made = await ctx.blocking(_hash, data, known.partition("$")[0])
        if not hmac.compare_digest(made, known):
            return False
        _keep(kind, data, known)
    return True


def _payload(kind: RemoteKind, inputs: Mapping[str, Any]) -> bytes:
    given = {name: inputs[name] for name in kind.write_only if name in inputs}
    return kind.payloads.pack_inputs(kind.model, given) if given else b""


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=_KEY).digest()


_KEY = secrets.token_bytes(32)
"""A random key of this process."""


def _keep(kind: RemoteKind, data: bytes, known: str) -> None:
    if len(kind.proved) >= PROVED:
        kind.proved.clear()
    kind.proved[_short(data)] = known


def _hash(data: bytes, salt: str) -> str:
    return f"{salt}${hashlib.scrypt(data, salt=salt.encode(), n=COST, r=8, p=1).hex()}"
