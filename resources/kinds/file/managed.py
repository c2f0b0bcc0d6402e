"""`file.managed`: a file with declared content, owner and mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from holdfast.resources.accumulators import Collecting
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._source_hash import declared_digest, digest_of
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import NEW_FILE, Ownership, octal, os_errors
from holdfast.resources.kinds.file.disk import FileComparison, read, source_mode
from holdfast.resources.kinds.file.managed_arguments import CONTENT, ManagedArguments
from holdfast.resources.paths.handle import LIMIT


class Managed(Collecting, ManagedArguments, kind="file.managed"):
    """A file has a declared content, owner and mode.

    The file is written under a temporary name and renamed, so no program ever reads a part of it. A directory, a fifo
    or a device at the path is an error and is not opened.

        /etc/motd:
          file.managed:
            - contents: Keep off the grass.
            - mode: '0644'

    With `template`, arguments with other names are variables of the template, as in `defaults`; prefer `context`.
    """

    otherwise: ClassVar[str] = "set replace: false"

    def contradicts(self, other: Resource) -> str | None:
        """Return the field that differs: owner, mode, or content if both states replace it."""
        if not isinstance(other, Managed):
            return super().contradicts(other)
        both = self.replace and other.replace and self.gives_content and other.gives_content
        wrong = next((name for name in ("user", "group", "mode") if self.differs(other, name)), None)
        wrong = wrong or next((name for name in CONTENT if both and getattr(self, name) != getattr(other, name)), None)
        return f"{wrong} differs" if wrong else None

    def with_texts(self, texts: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        """Return a copy whose template variables include `accumulator`."""
        variables = {**(self.context or {}), "accumulator": {name: [*given] for name, given in texts.items()}}
        return {"context": variables} if self.template else {}

    def stated(self) -> str | None:
        """Return the content in the state unless it is a template."""
        said = self.contents if self.replace and self.template is None else None
        return None if said is None else content.finished(said, newline=self.contents_newline)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and its sources outside the states directory."""
        return ctx.watch_path(self.name, *self.outside_paths(ctx))

    def declared_mode(self) -> int | None:
        """Return the declared mode; None for the mode of the source, which `wanted` sets."""
        return None if self.mode == "keep" else octal(self.mode)

    async def wanted(self, ctx: Context, comparison: FileComparison) -> bytes | None:
        """Return the content from the state, the pillar, the grains or the source."""
        if comparison.seen is not None and (not self.replace or await self._already(ctx, comparison)):
            return None
        data, source = await self._content(ctx, comparison.path, new=comparison.seen is None)
        if self.mode == "keep" and source is not None:
            comparison.owner = comparison.owner._replace(mode=source_mode(ctx, source))
        return data

    async def _already(self, ctx: Context, comparison: FileComparison) -> bool:
        """Return whether a remote file need not be fetched.

        It need not if the present file has the declared hash or the server reports that it is current.
        """
        if (
            comparison.place is None
            or comparison.seen is None
            or comparison.seen.st_size > LIMIT
            or self.template
            or len(self.source) != 1
            or not self.source[0][0].startswith(content.REMOTE)
        ):
            return False
        url, own = self.source[0]
        given = None if self.skip_verify else own or self.source_hash
        digest = given and await declared_digest(ctx, given, self.source_hash_name or url, self.name)
        with os_errors("read", comparison.path):
            data = await read(ctx, comparison.place, comparison.seen, published=False)
        found = await digest_of(ctx, digest.algorithm if digest else "sha256", data)
        return bool(found == digest.value if digest else await ctx.is_current(url, found))

    async def _content(self, ctx: Context, path: str, *, new: bool) -> tuple[bytes | None, str | None]:
        """Return the wanted content and its URL. None accepts any content; a new file is empty then."""
        data, url = None, None
        if self.source:
            sources = tuple((url, None) for url, _ in self.source) if self.skip_verify else self.source
            given, name = None if self.skip_verify else self.source_hash, self.source_hash_name or ""
            trusted = self.template is not None
            url, data = await content.fetch(ctx, sources, trusted=trusted, source_hash=given, name=name, path=self.name)
        elif (text := self._text(ctx)) is not None:
            data = self.encoded(text)
        if data is None:
            return (b"" if new else None), None
        if self.template:
            data = self._render(ctx, data, url or path)
        if not data and not self.allow_empty:
            raise Permanent(f"cannot manage {path}: its content is empty, and allow_empty is false")
        return data, url

    def _text(self, ctx: Context) -> str | None:
        """Return the content that the state itself contains."""
        text = self.contents
        if self.contents_pillar:
            text = content.lookup(ctx.pillar, self.contents_pillar, self.contents_delimiter, "pillar")
        elif self.contents_grains:
            text = content.lookup(ctx.facts, self.contents_grains, self.contents_delimiter, "grains")
        return None if text is None else content.finished(text, newline=self.contents_newline)

    def _render(self, ctx: Context, data: bytes, name: str) -> bytes:
        own = {
            "source": name,
            "name": self.name,
            "user": self.user,
            "group": self.group,
            "mode": self.mode,
            "saltenv": "base",
        }
        variables = {**own, **(self.defaults or {}), **(self.context or {})}
        return self.encoded(ctx.render(content.decoded(data, name), name=name, variables=variables))

    def changes_of_new(self, owner: Ownership) -> dict[str, str]:
        """Return the changes for a new file; Salt reports a file without declared content differently."""
        if owner.mode is None and self.source:
            owner = owner._replace(mode=NEW_FILE)
        told = super().changes_of_new(owner)
        if self.gives_content:
            return told
        del told["diff"]
        return {"new": f"file {self.name} created", **told}
