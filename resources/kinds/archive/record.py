"""What is known of an extraction that has succeeded, in the resource's own directory."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds.archive.manifest import Item, Manifest, paced
from holdfast.resources.kinds.archive.members import Rules

ABOUT, MEMBERS = "archive.json", "members.z"
WATCHED = 1000
"""Most items that are watched one by one; the watch of more is that of everything in the directories at the top."""


@dataclass(frozen=True)
class KnownExtraction:
    """One extraction, without its members."""

    sha256: str
    """Of the archive."""
    declared: str
    """The hash that was declared, with its algorithm; empty if there was none."""
    name: str
    """The directory."""
    rules: str
    """The rules by which it was extracted."""
    members: str = ""
    """SHA-256 of the file with its members."""
    watched: tuple[str, ...] = ()
    """Paths to watch."""
    deep: bool = False
    """Whether everything below these paths is watched."""


def spelled(rules: Rules) -> str:
    """Return rules as a text that is equal for equal rules."""
    return json.dumps(asdict(rules))


def path(ctx: Context) -> str:
    """Return the path of the record, which need not exist."""
    return str(ctx.var_dir / ABOUT)


def load(ctx: Context) -> KnownExtraction | None:
    """Return what is known; None if nothing is."""
    try:
        found = json.loads(paths.read(path(ctx)))
        return KnownExtraction(**{**found, "watched": tuple(found["watched"])})
    except (OSError, HoldfastError, ValueError, TypeError, KeyError):
        return None


def members(ctx: Context, known: KnownExtraction) -> Manifest | None:
    """Return the members of an extraction; None if they are not known. Blocks."""
    try:
        data = paths.read(str(ctx.var_dir / MEMBERS))
        if hashlib.sha256(data).hexdigest() != known.members:
            return None
        return {item.path: item for item in map(_item, paced(zlib.decompress(data).splitlines()))}
    except (OSError, HoldfastError, ValueError, TypeError, zlib.error):
        return None


async def save(ctx: Context, known: KnownExtraction, manifest: Manifest) -> None:
    """Write what is known: first the members, then what names them. Raises `OSError` and `HoldfastError`."""
    data, known = await ctx.long_blocking(_packed, known, manifest)
    await ctx.write_file(str(Path(ctx.var_dir) / MEMBERS), data, mode=0o600, touches=False)
    await ctx.write_file(path(ctx), json.dumps(asdict(known)).encode(), mode=0o600, touches=False)


def _item(line: bytes) -> Item:
    """Return an item as it was written. Raises `ValueError` and `TypeError`."""
    *known, looks = json.loads(line)
    return Item(**dict(zip(Item._fields, [*known, tuple(looks)], strict=True)))


def _packed(known: KnownExtraction, manifest: Manifest) -> tuple[bytes, KnownExtraction]:
    """Return the file of the members, and what is known with what follows from them."""
    data = zlib.compress("\n".join(map(json.dumps, paced(manifest.values()))).encode(), 1)
    deep = len(manifest) > WATCHED
    watched = tuple(f"{known.name.rstrip('/')}/{path}" for path in manifest if not deep or "/" not in path)
    return data, replace(known, members=hashlib.sha256(data).hexdigest(), watched=watched, deep=deep)
