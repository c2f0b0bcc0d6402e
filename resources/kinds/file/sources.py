"""Parts of files from sources, joined in order, and rendered if they are templates."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, model_validator

from holdfast.resources.context import Context
from holdfast.resources.fields import Text, Texts, Variables
from holdfast.resources.kinds._source_hash import declared_digest
from holdfast.resources.kinds.file import content
from holdfast.resources.traits import FromSources, UsedSource


class Sourced(FromSources, BaseModel):
    """Arguments for the sources of parts of a file; kinds inherit them."""

    source: Annotated[content.Sources, BeforeValidator(content.parse_sources)] = ()
    """URL of the content: salt://, file://, an absolute path, http(s)://."""
    source_hash: Text | None = None
    """Hash of the source, or the URL of a file with hashes; required for http."""
    sources: Annotated[content.Sources, BeforeValidator(content.parse_sources)] = ()
    """Several URLs, or `{URL: hash}`; all of them are used, in this order."""
    source_hashes: Texts = ()
    """Hashes of `sources`, in the same order."""
    template: Literal["jinja"] | None = "jinja"
    """Render the sources; null: use them as they are."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""

    @model_validator(mode="after")
    def _sources_fit(self) -> Self:
        if len(self.source) > 1:
            raise ValueError("source is one URL; write several under sources")
        if len(self.source_hashes) > len(self.sources):
            raise ValueError("there are more source_hashes than sources")
        for url, digest in self.all_sources():
            if url.startswith(content.REMOTE) and digest is None:
                raise ValueError(f"source {url} needs a hash")
        return self

    def all_sources(self) -> content.Sources:
        """Return each source with its hash."""
        one = tuple((url, digest or self.source_hash) for url, digest in self.source)
        hashes = self.source_hashes + (None,) * (len(self.sources) - len(self.source_hashes))
        return one + tuple((url, own or digest) for (url, own), digest in zip(self.sources, hashes, strict=True))

    def used_sources(self) -> list[UsedSource]:
        """Return the sources and the files with hashes."""
        urls = [url for pair in self.all_sources() for url in pair]
        rendered = {url for url, _ in self.all_sources()} if self.template else ()
        return [
            UsedSource(url, template=url in rendered)
            for url in urls
            if url is not None and url.startswith(content.SCHEMES)
        ]

    async def fetch(self, ctx: Context) -> tuple[str, ...]:
        """Return the text of each source.

        Raises `Permanent` or `Temporary` if a source is missing, has another hash or is not text.
        """
        return tuple([await self._text(ctx, url, digest) for url, digest in self.all_sources()])

    async def _text(self, ctx: Context, url: str, digest: str | None) -> str:
        wanted = None if digest is None else await declared_digest(ctx, digest, url)
        data = await ctx.source(url, trusted=self.template is not None, digest=wanted)
        text = content.decoded(data, url)
        if self.template is None:
            return text
        variables = {
            "source": url,
            "name": getattr(self, "name", ""),
            "saltenv": "base",
            **(self.defaults or {}),
            **(self.context or {}),
        }
        return ctx.render(text, name=url, variables=variables)
