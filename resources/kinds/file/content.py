"""Content of managed files: from the state itself, the pillar, the grains or a source, rendered if it is a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context
from holdfast.resources.downloads import WrongDigest, shown_url
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import parse_text
from holdfast.resources.kinds._source_hash import declared_digest
from holdfast.resources.lookup import lookup_value

Sources = tuple[tuple[str, str | None], ...]
"""URLs, each with its hash or None."""
SCHEMES = ("salt://", "tree://", "file://", "http://", "https://", "/")
Source = Annotated[str, Field(pattern=r"^($|salt://|tree://|file://|https?://|/)")]
"""A URL or an absolute path; empty text means no source."""
REMOTE = ("http://", "https://")


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
        raise ValueError(f"{url!r} is not a source; write salt://, file://, http://, https:// or an absolute path")
    if "\0" in url:
        raise ValueError("a source cannot contain a NUL character")
    return url, None if digest is None else str(digest)


@accepts(str, list[str | list[str]], None, numbers=True)
def parse_contents(value: object) -> object:
    """Return `contents` as text, from text, a number, or a list of these with one line each. Raises `ValueError`."""
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
        raise Permanent(f"cannot use {shown_url(url)}: it is not UTF-8 text (byte {error.start})") from None


def finished(text: str, *, newline: bool) -> str:
    """Return text with or without a final newline."""
    if not newline:
        return text.rstrip("\r\n")
    return text if not text or text.endswith("\n") else text + "\n"


def lookup(data: Mapping[str, Any], keys: Sequence[str], delimiter: str, where: str) -> str:
    """Return the texts of several keys of the pillar or the grains, joined by newlines.

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


async def fetch(
    ctx: Context, sources: Sources, *, trusted: bool, source_hash: str | None = None, name: str = "", path: str = ""
) -> tuple[str, bytes]:
    """Return the URL and content of the first source that exists, after verifying its declared hash.

    `source_hash` applies to sources without a hash of their own; `name` and `path` are looked up in a file with hashes.
    `trusted` is passed to `ctx.source`. Raises `Permanent` if no source exists, `WrongDigest` for a wrong hash.
    """
    refused = []
    for url, own in sources:
        given = own or source_hash
        digest = None if given is None else await declared_digest(ctx, given, name or url, path)
        try:
            return url, await ctx.source(url, trusted=trusted, digest=digest)
        except WrongDigest:
            raise
        except Permanent as error:
            if len(sources) == 1:
                raise
            refused.append(str(error))
    raise Permanent(f"no source can be read: {'; '.join(refused)}")
