"""`archive.extracted`: a directory has the members of an archive."""

from __future__ import annotations

from contextlib import aclosing

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.kinds.archive import record
from holdfast.resources.kinds.archive.arguments import ExtractedArguments
from holdfast.resources.kinds.archive.extraction import Extraction
from holdfast.resources.kinds.file.base import os_errors, ownership
from holdfast.resources.watches import either


class Extracted(ExtractedArguments, kind="archive.extracted"):
    """The members of an archive are in a directory, which may have other entries, too.

    /opt:
      archive.extracted:
        - source: https://example.org/app-1.2.tar.gz
        - source_hash: sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

    A member that is removed or changed is extracted again; the agent watches the members by inotify. The state leaves
    members that other states manage to these states. It extracts into a private directory, then moves the members into
    place, so each file is replaced as a whole. Members that lead out of the directory, devices and fifos are refused.

    It cannot be reversed, because the earlier content of the directory is not kept as a whole.
    """

    def watch(self, ctx: Context) -> Watch:
        """Watch the members of the last extraction, and archives on this host outside the states directory."""
        return self._watched(ctx)

    async def _watched(self, ctx: Context) -> Watch:
        plain = [self.name, record.path(ctx), *self.outside_paths(ctx), *([self.if_missing] if self.if_missing else ())]
        while True:
            known = record.load(ctx)
            if known is None or known.name != self.name or self.skip_files_list_verify:
                members: tuple[str, ...] = ()
            else:
                members = known.watched
            deep = known is not None and known.deep and bool(members)
            one_by_one = ctx.watch_path(*plain, *(() if deep else members))
            watch = either(one_by_one, ctx.watch_path(*members, recursive=True)) if deep else either(one_by_one)
            async with aclosing(watch):
                async for item in watch:
                    yield item
                    now = record.load(ctx)
                    if (now is None) != (known is None) or (now and known and now.watched != known.watched):
                        break

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Compare the directory with the archive; with `apply`, extract what differs."""
        if self.if_missing is not None:
            with os_errors("inspect", self.if_missing):
                there = paths.exists(self.if_missing)
            if there:
                ctx.report.comment = f"{self.if_missing} exists"
                return True
        owner = await ownership(ctx, self.user, self.group)
        return await Extraction(self, ctx, owner, apply=apply).run()
