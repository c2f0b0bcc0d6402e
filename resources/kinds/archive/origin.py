"""The source of a state's archive: whether it has changed since the extraction, and its content."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from holdfast.resources.context import Context
from holdfast.resources.downloads import Digest, DownloadedFile, WrongDigest, shown_url
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.kinds._source_hash import declared_digest
from holdfast.resources.kinds.archive.arguments import ExtractedArguments
from holdfast.resources.kinds.archive.record import KnownExtraction, spelled


class Archive(NamedTuple):
    """A fetched archive."""

    file: DownloadedFile
    declared: str
    """The declared hash with its algorithm; empty if none was declared."""


class Origin:
    """The sources of one state, during one run."""

    def __init__(self, state: ExtractedArguments, ctx: Context) -> None:
        self._state, self._ctx = state, ctx
        self.url = shown_url(state.source[0][0])
        """The source that was used last, for messages."""

    async def is_current(self, known: KnownExtraction) -> bool:
        """Return whether the present archive is the one that was extracted into this directory by these rules.

        Raises `Temporary` if this is unknown now.
        """
        if known.name != self._state.name or known.rules != spelled(self._state.rules):
            return False
        for url, own in self._state.source:
            self.url = shown_url(url)
            with suppress(Permanent):
                digest = await self._declared(url, own)
                if digest is not None:
                    return _spelled(digest) in {known.declared, f"sha256={known.sha256}"}
                return await self._ctx.is_current(url, known.sha256, bounds=self._state.bounds)
        return False

    async def _declared(self, url: str, own: str | None) -> Digest | None:
        """Return the declared hash of an archive if the state verifies it."""
        given = None if self._state.skip_verify else own or self._state.source_hash
        return None if given is None else await declared_digest(self._ctx, given, self._state.source_hash_name or url)

    async def fetch(self, known: KnownExtraction | None = None) -> Archive:
        """Return the first archive that exists or, with `known`, the archive of that extraction.

        Raises `Permanent` if none exists, `WrongDigest` for a wrong hash, `ChangedMeanwhile` if the known archive has
        changed.
        """
        refused: list[Permanent] = []
        for url, own in self._state.source:
            self.url = shown_url(url)
            try:
                return await self._fetched(url, own, known)
            except WrongDigest:
                if known is None:
                    raise
                raise ChangedMeanwhile(f"cannot extract {self.url}: it has changed meanwhile") from None
            except Permanent as error:
                refused.append(error)
        if len(refused) == 1:
            raise refused[0]
        raise Permanent(f"no source can be read: {'; '.join(map(str, refused))}")

    async def _fetched(self, url: str, own: str | None, known: KnownExtraction | None) -> Archive:
        digest = Digest("sha256", known.sha256) if known is not None else await self._declared(url, own)
        bounds, keep = self._state.bounds, self._state.keep_source
        file = await self._ctx.download(url, digest=digest, bounds=bounds, keep=keep)
        return Archive(file, known.declared if known is not None else "" if digest is None else _spelled(digest))


def _spelled(digest: Digest) -> str:
    return f"{digest.algorithm}={digest.value}"
