"""Content of managed files: from the state itself, the pillar or a source, rendered if it is a template."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import parse_text
from holdfast.resources.kinds.file.base import LARGE
from holdfast.resources.lookup import lookup_value

Sources = tuple[tuple[str, str | None], ...]
"""URLs, each with its hash or None."""
SCHEMES = ("salt://", "tree://", "file://", "http://", "https://", "/")
Source = Annotated[str, Field(pattern=r"^($|salt://|tree://|file://|https?://|/)")]
"""A URL, or an absolute path; an empty text is no source."""
REMOTE = ("http://", "https://")
ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Length of a digest in hex digits -> algorithm."""
DIGEST = r"(?:(md5|sha1|sha224|sha256|sha384|sha512)[:=])?([0-9A-Fa-f]{32,128})"


@accepts(Source, dict[Source, str], list[Source | dict[Source, str]], None)
def parse_sources(value: object) -> object:
    """Return `source` as a tuple of (URL, hash or None), from one URL, a list of URLs or `{URL: hash}`."""
    items = value if isinstance(value, (list, tuple)) else () if value is None or value == "" else (value,)
    return tuple([_source(item) for item in items])


def _source(item: object) -> tuple[str, str | None]:
    """Return URL and hash of a URL, a `{URL: hash}` or a pair. Raises `ValueError`."""
    url, digest = next(iter(item.items())) if isinstance(item, Mapping) and len(item) == 1 else (item, None)
    if isinstance(url, (list, tuple)) and len(url) == 2:
        url, digest = url
    if not isinstance(url, str) or not url.startswith(SCHEMES):
        raise ValueError(f"{url!r} is not a source: write salt://, file://, http://, https:// or an absolute path")
    if "\0" in url:
        raise ValueError("a source cannot contain a NUL character")
    return url, None if digest is None else str(digest)


@accepts(str, list[str | list[str]], None, numbers=True)
def parse_contents(value: object) -> object:
    """Return `contents` as text, from text, a number, or a list of these, one line each. Raises `ValueError`."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, list, tuple)):
        raise ValueError("contents must be text or a list of lines")  # noqa: TRY004 - pydantic reports only ValueError
    if isinstance(value, (list, tuple)):
        return "\n".join(str(parse_contents(line)).rstrip("\n") for line in value)
    return parse_text(value)


def decoded(data: bytes, url: str) -> str:
    """Return the text of a source. Raises `Permanent` if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Permanent(f"cannot use {url}: it is not UTF-8 text (byte {error.start})") from None


def finished(text: str, *, newline: bool) -> str:
    """Return text with, or without, a newline at its end."""
    if not newline:
        return text.rstrip("\r\n")
    return text if not text or text.endswith("\n") else text + "\n"


def lookup(data: Mapping[str, Any], keys: Sequence[str], delimiter: str, where: str) -> str:
    """Return the text of several keys of the pillar or the grains, joined by newlines.

    Raises `Permanent` if a key is missing.
    """
    return "\n".join(_text(key, lookup_value(data, key, delimiter, where), where) for key in keys)


def _text(key: str, value: Any, where: str) -> str:
    try:
        text = parse_contents(value)
    except ValueError as error:
        raise Permanent(f"cannot use {key!r} of the {where}: {error}") from None
    if text is None:
        raise Permanent(f"cannot use {key!r} of the {where}: it has no value")
    return str(text)


async def fetch(ctx: Context, sources: Sources, *, trusted: bool) -> tuple[str, str | None, bytes]:
    """Return URL, hash and content of the first source that exists.

    `trusted` as in `ctx.source`. Raises `Permanent` if none exists.
    """
    if len(sources) == 1:
        return *sources[0], await ctx.source(sources[0][0], trusted=trusted)
    refused = []
    for url, digest in sources:
        try:
            return url, digest, await ctx.source(url, trusted=trusted)
        except Permanent as error:
            refused.append(str(error))
    raise Permanent(f"no source can be read: {'; '.join(refused)}")


async def expected(ctx: Context, digest: str, wanted: str, path: str) -> tuple[str, str]:
    """Return algorithm and hex digest from `source_hash`, which is a digest or names a file with digests.

    `wanted` is the name to look for in the file; the base names of the source and of `path` are tried, too.
    """
    found = re.fullmatch(DIGEST, digest.strip())
    if found is None:
        data = await ctx.source(digest)
        if len(data) > LARGE:
            raise Permanent(f"cannot verify {wanted}: {digest} has more than {LARGE >> 20} MiB")
        text = data.decode(errors="replace")
        names = (wanted, os.path.basename(wanted), os.path.basename(path))  # noqa: PTH119 - URLs are no paths
        found = _pick(text, names)
        if found is None:
            raise Permanent(f"cannot verify {wanted}: {digest} has no hash of it")
    value = found[2].lower()
    algorithm = found[1] or ALGORITHMS.get(len(value))
    if algorithm is None or ALGORITHMS.get(len(value)) != algorithm:
        raise Permanent(f"cannot verify {wanted}: {digest} is not a hash of a known kind")
    return algorithm, value


def _pick(text: str, names: Sequence[str]) -> re.Match[str] | None:
    """Return the hash of one of the names in a list of hashes, or the only hash of the list."""
    found: list[re.Match[str]] = []
    for line in text.splitlines():
        words = [word.lstrip("*./") for word in line.split()]
        digests = [match for word in words if (match := re.fullmatch(DIGEST, word))]
        if digests and any(name in words for name in names):
            return digests[0]
        found += digests
    return found[0] if len(found) == 1 else None


async def digest_of(ctx: Context, algorithm: str, data: bytes) -> str:
    """Return the hex digest of data, computed in a thread if the data are large."""

    def digest() -> str:
        return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()

    return str(await ctx.blocking(digest)) if len(data) > LARGE else digest()


async def verify(ctx: Context, url: str, data: bytes, algorithm: str, wanted: str) -> None:
    """Raise `Permanent` if the content does not have the hash."""
    actual = await digest_of(ctx, algorithm, data)
    if actual != wanted:
        raise Permanent(f"cannot use {url}: its {algorithm} is {actual}, but source_hash says {wanted}")
