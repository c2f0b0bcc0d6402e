"""`file.recurse`: a copy of a directory."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources.context import Context, Watch
from holdfast.resources.dependencies import Dependency, lies_in, owned_by
from holdfast.resources.effects import Effect, further
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Mode, Owner, Variables, field, parse_list
from holdfast.resources.kinds.file import content, trees
from holdfast.resources.kinds.file.base import WINDOWS, ModeOrKeep, Placed, found, note, octal, ownership, status
from holdfast.resources.kinds.file.mirror import DirectoryRules, Mirror
from holdfast.resources.kinds.file.sourcetree import EntrySelection, SourceEntry, dump, file_names, load, read_tree
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import FromSources, UsedSource

SHOWN = 10
"""Maximum number of removed paths in the comment."""


def local_directories(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Check that sources are directories on this host. Raises `ValueError`."""
    if not urls:
        raise ValueError("source is missing")
    for url in urls:
        if not url.startswith(content.SCHEMES) or url.startswith(content.REMOTE):
            raise ValueError(
                f"{url!r} is not a directory that can be copied; write salt://, file:// or an absolute path"
            )
    return tuple(url.partition("?")[0].rstrip("/") or "/" for url in urls)


Directories = Annotated[tuple[str, ...], BeforeValidator(parse_list), AfterValidator(local_directories)]


class Recurse(FromSources, Placed, kind="file.recurse"):
    """A directory is a copy of another: it has its files, and its directories that contain files.

    Links in the copy are never followed: a link in place of a file is replaced, a link in place of a directory is an
    error.

    /etc/app:
      file.recurse:
        - source: salt://app/etc
        - clean: true
        - file_mode: '0640'
    """

    exclusive: ClassVar[bool] = False
    ignored: ClassVar[Mapping[str, str]] = {
        "keep_source": "copies of sources are kept while they are needed",
        "sym_mode": "links have no mode",
        **WINDOWS,
    }
    refused: ClassVar[Mapping[str, str]] = {
        "merge": "only the first directory that exists is used; declare a file.recurse for each directory"
    }

    source: Directories
    """A salt:// URL or absolute path of a directory, or a list of these, of which the first that exists is used."""
    user: Owner | None = None
    """Owner of all entries, by name or number. Default: unchanged."""
    group: Owner | None = None
    """Group of all entries, by name or number. Default: unchanged."""
    dir_mode: Mode | None = None
    """Mode of directories. Default: unchanged, 0755 for new directories."""
    file_mode: ModeOrKeep | None = None
    """Mode of files, or `keep` for the modes of the source. Default: unchanged, 0644 for new files."""
    clean: bool = False
    """Remove everything that is neither in the source nor managed by another state."""
    replace: bool = True
    """Replace the content of existing files."""
    template: Literal["jinja"] | None = None
    """Render all files."""
    context: Variables | None = None
    """Variables of the templates."""
    defaults: Variables | None = None
    """Variables of the templates that `context` does not define."""
    include_empty: bool = False
    """Create directories without files, too."""
    include_pat: trees.Patterns = ()
    """Copy only matching paths: globs of the path below the directory, or `E@` and a regular expression."""
    exclude_pat: trees.Patterns = ()
    """Skip matching paths, also in `clean`."""
    maxdepth: int | None = field(None, ge=0)
    """Levels of directories below the source; 0: only its own files."""
    keep_symlinks: bool = False
    """Copy links as links. Default: copy their targets."""
    force_symlinks: bool = False
    """Remove a file that is in the way of a link."""
    backup: Literal["minion", "master", "both", "", False] | None = None
    """`minion`: keep a copy of each replaced file in the agent's own directory."""
    show_changes: bool | None = None
    """Show the diffs: true always, false never. Default: of files that other users may read."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the owner and the parent, which is not vital because missing parents are created."""
        return (lies_in(self.name, vital=False), *owned_by(self.user, self.group))

    def watch(self, ctx: Context) -> Watch:
        """Watch everything in the directory and its sources outside the states directory."""
        sources = (ctx.source_outside(url) for url in self.source)
        return ctx.watch_path(self.name, *(path for path in sources if path is not None), recursive=True)

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Copy the directory and its content, then remove surplus entries."""
        url, entries = await ctx.long_blocking(self._source, ctx)
        existed = status(self.name) is not None
        mirror = Mirror(ctx, await self._rules(ctx, url), self._top(), apply=apply)

        async def tell() -> None:
            ctx.report.diff = mirror.diff()
            if apply and not existed and len(mirror.changes) > 1:
                mirror.changes.pop(self.name, None)  # as in Salt, which then reports only the content
            note(ctx, mirror.changes, self._effect(mirror, apply=apply, new=not existed), applied=apply)

        ctx.report.account = tell if apply else None
        await mirror.make(entries)
        if self.clean:
            await mirror.clean(entries, self.exclude_pat)
        mirror.fail()
        if not mirror.changes and not mirror.removed:
            ctx.report.comment = f"{self.name} is equal to {url}"
            return True
        await tell()
        return False

    def _effect(self, mirror: Mirror, *, apply: bool, new: bool) -> Effect:
        changed = len(mirror.changes.keys() - {"removed"})
        foreseen = "" if apply else mirror.of_new()
        removed = shortened(mirror.removed) if mirror.removed else ""
        if removed and not new and not changed:
            return Effect(("remove",), self.name, "entries", f" ({removed}){foreseen}")
        detail = (further("remove", removed, applied=apply) if removed else "") + foreseen
        return Effect(("create" if new else "change",), self.name, "" if new else f"{changed} entries", detail)

    def used_sources(self) -> list[UsedSource]:
        """Return the directories and the files in them."""
        rendered = self.template is not None
        return [
            UsedSource(url, self._view(), self._list, file_names, choice=True, template=rendered) for url in self.source
        ]

    def _view(self) -> str:
        """Return the name of the view of a source, because two states may select different parts of it."""
        return f"tree {self.include_pat} {self.exclude_pat} {self.maxdepth} {self.include_empty} {self.keep_symlinks}"

    def _list(self, directory: str) -> bytes:
        """Return the selected entries of a directory as text; empty if there are none. Blocks."""
        _, seen = found(directory, follow=True)
        if seen is None or not stat.S_ISDIR(seen.st_mode):
            return b""
        choice = EntrySelection(self.include_pat, self.exclude_pat, self.maxdepth, self.include_empty)
        return dump(read_tree(directory, choice, keep_links=self.keep_symlinks))

    def _source(self, ctx: Context) -> tuple[str, list[SourceEntry]]:
        """Return the first source that exists and its selected entries. Raises `Permanent` if none exists. Blocks."""
        for url in self.source:
            listing = ctx.source_view(url, self._view(), self._list)
            if listing:
                return url, load(listing)
        missing = ", ".join(self.source)
        raise Permanent(f"cannot copy {missing}: the directory does not exist; use file.managed for a single file")

    def _top(self) -> str:
        """Return the path of the directory; follow a link at the path. Raises `Permanent` if it is not a directory."""
        place, seen = found(self.name, follow=True)
        path = self.name if place is None else place.path
        if seen is not None and not stat.S_ISDIR(seen.st_mode):
            raise Permanent(f"cannot make directory {path}: {what(seen.st_mode)} is in the way; remove it first")
        return path

    async def _rules(self, ctx: Context, url: str) -> DirectoryRules:
        mode = None if self.file_mode == "keep" else octal(self.file_mode)
        return DirectoryRules(
            url,
            await ownership(ctx, self.user, self.group, octal(self.dir_mode)),
            await ownership(ctx, self.user, self.group, mode),
            keep_mode=self.file_mode == "keep",
            replace=self.replace,
            force_links=self.force_symlinks,
            back_up=self.backup in {"minion", "both"},
            show=self.show_changes,
            variables={**(self.defaults or {}), **(self.context or {})} if self.template else None,
        )


def shortened(paths: Sequence[str]) -> str:
    """Return the first paths and the number of the others."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more
