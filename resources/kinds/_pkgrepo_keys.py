"""The key of a repository: its source, and the checks before it is used."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Self
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, BeforeValidator, model_validator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.context import Context
from holdfast.resources.downloads import Digest, DownloadBounds, shown_url
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Line, Text, parse_list, shaped
from holdfast.resources.kinds._source_hash import SourceHash, declared_digest
from holdfast.resources.kinds.file import content
from holdfast.resources.numbers import Written
from holdfast.resources.openpgp import LIMIT, NAMED, NoKey, armored, binary, public_keys
from holdfast.resources.traits import FromSources, UsedSource

UNPROTECTED = ("http://", "hkp://")
"""Prefixes of URLs whose answers an attacker on the network could replace."""
BOUNDS = DownloadBounds(size=LIMIT, total=120.0)
"""Limits of the download of a key."""
SHORT = 8
"""Digits of a short id: an attacker can create a key with the same short id within seconds."""
LAUNCHPAD = "https://launchpad.net/api/1.0/~{owner}/+archive/{name}"
KEYSERVER = "keyserver.ubuntu.com"
"""Server with the keys of Launchpad."""


@accepts(VALUE, int)
def parse_keyid(value: object) -> object:
    """Return the id of a key as text. YAML reads `0x5a16e7281be7a449` as a number; convert it to hexadecimal digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        text = value.written if isinstance(value, Written) else str(value)
        return text if NAMED.fullmatch(text) else f"{int(value):016X}"
    return value.replace(" ", "") if isinstance(value, str) else value


KeyId = Annotated[
    str,
    shaped(NAMED.pattern, "the id of a key: an id has 8, 16 or 40 hexadecimal digits"),
    BeforeValidator(parse_keyid),
]
"""The fingerprint of a key or its last digits."""
KeyIds = Annotated[tuple[KeyId, ...], BeforeValidator(parse_list)]
"""Ids of keys; a single id is a list with one item."""


class Keyed(FromSources, BaseModel):
    """Arguments for the key of a repository; kinds inherit them."""

    key_url: Line | None = None
    """URL of the key: salt://, file://, an absolute path, http(s)://."""
    key_hash: SourceHash | None = None
    """Hash of the file at `key_url`, in the form of the argument `source_hash` of `file.managed`."""
    keyid: KeyIds = ()
    """One or several ids or fingerprints: the file at `key_url` must have exactly these keys.

    Without `key_url` and `key_text`, the keys are fetched from `keyserver`. Ids of subkeys do not count.
    """
    keyserver: Annotated[Line, shaped(r"((https?|hkps?)://)?[A-Za-z0-9][\w.:-]*/?", "the name of a server")] | None = (
        None
    )
    """Server of keys. For a name without hkp://, the agent uses https."""
    key_text: Text | None = None
    """The key itself, in ASCII armor."""
    allow_insecure_key: bool = True
    """Accept a key that is fetched without protection (http://, hkp://) and not confirmed by a hash or fingerprint."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.key_url and self.key_text:
            raise ValueError("key_url and key_text exclude each other: set only one of them")
        if self.key_hash and not self.key_url:
            raise ValueError("key_hash is the hash of the file at key_url: set key_url, too")
        if self.keyid and not (self.keyserver or self.key_url or self.key_text or getattr(self, "ppa", None)):
            raise ValueError("keyid needs keyserver, the server to fetch the key from")
        if not self.allow_insecure_key and (why := self._unproven()):
            raise ValueError(why)
        return self

    def _unproven(self) -> str:
        """Return why the key could come from an attacker on the network; empty if it could not."""
        named = self.keyid and all(len(keyid.removeprefix("0x")) > SHORT for keyid in self.keyid)
        if self.key_url:
            insecure = self.key_url.startswith(UNPROTECTED) and not self.key_hash and not named
            return f"{shown_url(self.key_url)} is not protected: use https://, or set key_hash" if insecure else ""
        if (self.keyserver or "").startswith(UNPROTECTED) and self.keyid and not named:
            return f"{self.keyserver} is not protected, and a short keyid proves nothing: write the fingerprint"
        return ""

    @property
    def has_key(self) -> bool:
        """Whether the state has a key."""
        return bool(self.key_url or self.key_text or (self.keyid and self.keyserver) or getattr(self, "ppa", None))

    def used_sources(self) -> list[UsedSource]:
        """Return the file of the key and a file with hashes."""
        return [UsedSource(url) for url in (self.key_url, self.key_hash) if url and url.startswith(content.SCHEMES)]

    async def fetch_key(self, ctx: Context) -> str:
        """Return the key in ASCII armor. Use an earlier download if the source is not on this host.

        Raises `Permanent` or `Temporary` if the key cannot be read or is not the right one.
        """
        if self.key_text:
            return str(await ctx.blocking(_checked, "key_text", self.key_text.encode(), self.keyid))
        remote = not self.key_url or self.key_url.startswith(content.REMOTE)
        if remote and (kept := await self._kept(ctx)):
            return kept
        if self.key_url:
            digest = await declared_digest(ctx, self.key_hash, self.key_url) if self.key_hash else None
            data = await _content(ctx, self.key_url, digest)
            return str(await ctx.blocking(_checked, self.key_url, data, self.keyid))
        return "".join([await self._from_server(ctx, keyid) for keyid in await self._ids(ctx)])

    async def _ids(self, ctx: Context) -> Iterable[str]:
        """Return the ids of the keys to fetch: those of the state, or the id that Launchpad names for a PPA."""
        if self.keyid:
            return self.keyid
        owner, _, name = str(getattr(self, "ppa", "")).partition("/")
        url = LAUNCHPAD.format(owner=quote(owner), name=quote(name))
        try:
            known = json.loads(await _content(ctx, url))["signing_key_fingerprint"]
        except (ValueError, KeyError, TypeError):
            known = None
        if not isinstance(known, str) or not NAMED.fullmatch(known):
            raise Permanent(f"cannot use the PPA {owner}/{name}: {url} names no key")
        return (known,)

    async def _from_server(self, ctx: Context, keyid: str) -> str:
        digits = keyid.lower().removeprefix("0x")
        url = f"{_lookup(self.keyserver or KEYSERVER)}/pks/lookup?op=get&options=mr&exact=on&search=0x{digits}"
        return str(await ctx.blocking(_checked, url, await _content(ctx, url), (keyid,)))

    async def keep_key(self, ctx: Context, key: str) -> None:
        """Keep a fetched key so that repairs need no network."""
        if self.key_text or (self.key_url and not self.key_url.startswith(content.REMOTE)):
            return
        if self._unproven():
            ctx.log.warning("the key of the repository was fetched without protection", why=self._unproven())
        await ctx.write_file(self._place(ctx), key.encode(), mode=0o600, touches=False)

    async def _kept(self, ctx: Context) -> str:
        try:
            return await ctx.read_text(self._place(ctx))
        except OSError:
            return ""

    def _place(self, ctx: Context) -> str:
        """Return the path of a fetched key; each URL, hash and id has its own."""
        said: Any = [self.key_url, self.key_hash, self.keyid, self.keyserver, getattr(self, "ppa", None)]
        return str(ctx.var_dir / f"key-{hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]}.asc")


async def _content(ctx: Context, url: str, digest: Digest | None = None) -> bytes:
    """Return the content of a URL, up to a maximum size. Raises `Permanent` or `Temporary`."""
    fetched = await ctx.download(url, digest=digest, bounds=BOUNDS, trusted=True, keep=False)
    data: bytes = await ctx.blocking(fetched.read, LIMIT)
    return data


def _lookup(server: str) -> str:
    """Return the http URL of a server of keys: hkp is http with a port of its own."""
    scheme, found, rest = server.rstrip("/").partition("://")
    if not found:
        return f"https://{scheme}"
    if scheme == "hkp":
        return f"http://{rest}" if urlsplit(server).port else f"http://{rest}:11371"
    return f"https://{rest}" if scheme == "hkps" else f"{scheme}://{rest}"


def _checked(where: str, data: bytes, ids: Iterable[str]) -> str:
    """Check keys and return them in ASCII armor. Blocks while it parses a large file.

    Raises `Permanent` for data that are not public keys and, with ids, for keys with other ids.
    """
    where = shown_url(where)
    try:
        found = binary(_without_page(data))
        keys = public_keys(found)
    except NoKey as error:
        raise Permanent(f"cannot use the key {where}: {error}") from None
    names = [*ids]
    for keyid in names:
        if not any(key.is_named(keyid) for key in keys):
            raise Permanent(f"cannot use the key {where}: it is {keys[0].fingerprint}, not {keyid}")
    others = [key.fingerprint for key in keys if names and not any(map(key.is_named, names))]
    if others:
        raise Permanent(
            f"cannot use the key {where}: it also has the key {others[0]}; if you trust it, add it to keyid"
        )
    return armored(found)


def _without_page(data: bytes) -> bytes:
    """Extract the armored key from an HTML page, as some servers of keys send it; return other data unchanged."""
    found = re.search(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----.*-----END PGP PUBLIC KEY BLOCK-----", data, re.DOTALL)
    return found[0] if found else data
