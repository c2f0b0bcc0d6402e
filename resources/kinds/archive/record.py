"""The record of a successful extraction, in the resource's own directory."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds.archive.manifest import Manifest, ManifestItem, paced
from holdfast.resources.kinds.archive.members import ExtractionRules

ABOUT, MEMBERS = "archive.json", "members.z"
WATCHED = 1000
"""Maximum number of items to watch one by one; if there are more, the top-level directories are watched whole."""


@dataclass(frozen=True)
class KnownExtraction:
    """One extraction, without its members."""

    sha256: str
    """Hash of the archive."""
    declared: str
    """The declared hash with its algorithm; empty if none was declared."""
    name: str
    """Path of the directory."""
    rules: str
    """The rules of the extraction, as text."""
    members: str = ""
    """SHA-256 of the file that lists the members."""
    watched: tuple[str, ...] = ()
    """Paths to watch."""
    deep: bool = False
    """Whether everything below these paths is watched."""


def spelled(rules: ExtractionRules) -> str:
    """Return rules as text; equal rules have equal texts."""
    return json.dumps(asdict(rules))


def path(ctx: Context) -> str:
    """Return the path of the record, which need not exist."""
    return str(ctx.var_dir / ABOUT)


def load(ctx: Context) -> KnownExtraction | None:
    """Return the known extraction; None if there is none."""
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
    """Write the members, then the record that names them. Raises `OSError` and `HoldfastError`."""
    data, known = await ctx.long_blocking(_packed, known, manifest)
    await ctx.write_file(str(Path(ctx.var_dir) / MEMBERS), data, mode=0o600, touches=False)
    await ctx.write_file(path(ctx), json.dumps(asdict(known)).encode(), mode=0o600, touches=False)


def _item(line: bytes) -> ManifestItem:
    """Parse an item of the file. Raises `ValueError` and `TypeError`."""
    *known, looks = json.loads(line)
    return ManifestItem(**dict(zip(ManifestItem._fields, [*known, tuple(looks)], strict=True)))


def _packed(known: KnownExtraction, manifest: Manifest) -> tuple[bytes, KnownExtraction]:
    """Return the content of the file of members, and the record with its hash and the paths to watch."""
    data = zlib.compress("\n".join(map(json.dumps, paced(manifest.values()))).encode(), 1)
    deep = len(manifest) > WATCHED
    watched = tuple(f"{known.name.rstrip('/')}/{path}" for path in manifest if not deep or "/" not in path)
    return data, replace(known, members=hashlib.sha256(data).hexdigest(), watched=watched, deep=deep)
