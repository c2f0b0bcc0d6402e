"""`source_hash` in all its forms: a digest with or without its algorithm, or the URL of a file with digests."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pydantic import AfterValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.downloads import Digest, digests, shown_url
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text

ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Length of a digest in hex digits -> algorithm."""
DIGEST = r"(?:(md5|sha1|sha224|sha256|sha384|sha512)[:=])?([0-9A-Fa-f]{32,128})"
LARGE = 1 << 20
"""Size, in bytes, above which data are hashed in a thread."""
LIST = 1 << 20
"""Maximum size, in bytes, of a file with digests."""


@accepts(pattern=r"(?!(md5|sha\d+)[:=])[\s\S]*|(md5|sha\d+)[:=][0-9A-Fa-f]{32,128}")
def demand_digest(value: str) -> str:
    """Check a hash that names its algorithm. Raises `ValueError` for an unknown algorithm or invalid digits."""
    named = re.fullmatch(r"(md5|sha\d+)[:=](.*)", value.strip())
    if named and (not re.fullmatch(r"[0-9A-Fa-f]*", named[2]) or ALGORITHMS.get(len(named[2])) != named[1]):
        digits = next((length for length, name in ALGORITHMS.items() if name == named[1]), None)
        has = (
            f"it has {digits} hexadecimal digits" if digits else f"the algorithms are {', '.join(ALGORITHMS.values())}"
        )
        raise ValueError(f"{value!r} is not a hash: {has}")
    return value


SourceHash = Annotated[Text, AfterValidator(demand_digest)]
"""A hash, with or without its algorithm, or the URL of a file with hashes."""


async def declared_digest(ctx: Context, given: str, wanted: str, path: str = "") -> Digest:
    """Return the hash that `source_hash` declares.

    `wanted` is the name to look up in a file with hashes; the base names of `wanted` and `path` are tried, too. Raises
    `Permanent` if there is no hash of a known kind, and what `ctx.source` raises.
    """
    found = re.fullmatch(DIGEST, given.strip())
    if found is None:
        data = await ctx.source(given)
        if len(data) > LIST:
            raise Permanent(f"cannot verify {shown_url(wanted)}: {shown_url(given)} has more than {LIST >> 20} MiB")
        names = (wanted, os.path.basename(wanted), os.path.basename(path))  # noqa: PTH119 - URLs are no paths
        found = _pick(data.decode(errors="replace"), names)
        if found is None:
            raise Permanent(f"cannot verify {shown_url(wanted)}: {shown_url(given)} has no hash for it")
    value = found[2].lower()
    algorithm = found[1] or ALGORITHMS.get(len(value))
    if algorithm is None or ALGORITHMS.get(len(value)) != algorithm:
        raise Permanent(f"cannot verify {shown_url(wanted)}: {shown_url(given)} is not a hash of a known kind")
    return Digest(algorithm, value)


def _pick(text: str, names: Sequence[str]) -> re.Match[str] | None:
    """Return the hash of one of the names in a list of hashes, or the only hash of the list."""
    found: list[re.Match[str]] = []
    for line in text.splitlines():
        words = [word.strip("()").lstrip("*./") for word in line.split()]
        digests = [match for word in words if (match := re.fullmatch(DIGEST, word))]
        if digests and any(name.lstrip("*./") in words for name in names if name):
            return digests[0]
        found += digests
    return found[0] if len(found) == 1 else None


async def digest_of(ctx: Context, algorithm: str, data: bytes) -> str:
    """Return the hex digest of data, computed in a thread if the data are large."""
    hashing = partial(digests, (data,), (algorithm,))
    found = hashing() if len(data) <= LARGE else await ctx.blocking(hashing)
    return str(found[algorithm])
