"""`file.managed`: a file with declared content, owner and mode."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Awaitable, Callable, Collection

from holdfast.resources.context import Context, Watch, announced
from holdfast.resources.contract import Resource
from holdfast.resources.diff import hidden, unified
from holdfast.resources.effects import Effect
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._source_hash import declared_digest, digest_of
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import (
    NEW_FILE,
    Ownership,
    PathResource,
    demand_parent,
    found,
    is_public,
    make_parents,
    note,
    octal,
    os_errors,
    ownership,
    passable,
    place_of,
)
from holdfast.resources.kinds.file.before import before
from holdfast.resources.kinds.file.disk import (
    Comparison,
    attributes_of_new,
    back_up,
    compare,
    difference,
    effective_owner,
    read,
    source_mode,
)
from holdfast.resources.kinds.file.managed_arguments import CONTENT, ManagedArguments
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import LIMIT, what
from holdfast.resources.traits import Declaration, Reversible

PRIVATE = 0o600
"""Mode of every file while it is written."""


class Managed(Reversible, ManagedArguments, kind="file.managed"):
    """A whole file: content, owner, mode.

    The file is written under a temporary name and renamed, so no reader ever sees a part of it. A directory, a fifo or
    a device at the path is an error, and is not opened.

        /etc/motd:
          file.managed:
            - contents: Keep off the grass.
            - mode: '0644'

    With `template`, arguments of any other name are variables of the template, as in `defaults`; prefer `context`.
    """

    def contradicts(self, other: Resource) -> str | None:
        """Return the field that differs: owner, mode, or content if both states replace it."""
        if not isinstance(other, Managed):
            return super().contradicts(other)
        both = self.replace and other.replace and self.gives_content and other.gives_content
        wrong = next((name for name in ("user", "group", "mode") if self.differs(other, name)), None)
        wrong = wrong or next((name for name in CONTENT if both and getattr(self, name) != getattr(other, name)), None)
        return f"{wrong} differs" if wrong else None

    def refuses(self, part: PathResource) -> str | None:
        """Return why an edit contradicts this state: it would change the content that this state gives."""
        said = self.contents if self.replace and self.template is None and not self.encoding else None
        if said is None or not part.changes_text(content.finished(said, newline=self.contents_newline)):
            return None
        return f"{part.kind} changes the content that {self.kind} declares; put it there, or set replace: false"

    def watch(self, ctx: Context) -> Watch:
        """Watch the file, and its sources outside the states directory."""
        local = (ctx.source_outside(drawn.url) for drawn in self.used_sources())
        return ctx.watch_path(self.name, *(path for path in local if path is not None))

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present file, or the target of a link that is followed."""
        place, _ = self._target()
        return await before(ctx, self.name if place is None else place.path)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe the file and, with `apply`, repair it: the content first, since readers need it most."""
        place, seen = self._target()
        path = self.name if place is None else place.path
        if seen is None and not self.create:
            ctx.report.comment = f"{path} does not exist, and create is false"
            return True
        mode = None if self.mode == "keep" else octal(self.mode)
        comparison = Comparison(
            path, place, seen, effective_owner(await ownership(ctx, self.user, self.group, mode), place, seen)
        )
        await self._compare(ctx, comparison)
        wrong = self._wrong(comparison)
        if comparison.seen is not None and not comparison.differs and not wrong:
            ctx.report.comment = f"{path} is as declared"
            return True
        if comparison.seen is not None and comparison.wanted is None and comparison.needs_new_file():
            comparison.demand_givable()
        if apply:
            ctx.report.account = lambda: self._account(ctx, comparison, wrong)
            await self._put(ctx, comparison)
        self._report(ctx, comparison, wrong, apply)
        return False

    async def _account(self, ctx: Context, comparison: Comparison, wrong: dict[str, str]) -> None:
        """After an error, report the differences that have been repaired."""
        place, seen = self._target()
        now = Comparison(comparison.path, place, seen, comparison.owner)
        await self._compare(ctx, now)
        if now.seen is not None:
            self._report(
                ctx, comparison, wrong, apply=True, left=(*self._wrong(now), *(["diff"] if now.differs else []))
            )

    # -- probing -----------------------------------------------------------------------------------------------

    def _wrong(self, comparison: Comparison) -> dict[str, str]:
        """Return the differences other than of the content."""
        wrong = comparison.owner.wrong(comparison.seen)
        if self.selinux is not None:
            wrong |= self.selinux.wrong(comparison.path, comparison.place if comparison.seen is not None else None)
        return wrong

    def _target(self) -> tuple[Place | None, os.stat_result | None]:
        """Return the place to manage and the status of the file there; None for a link that will be replaced.

        Raises `Permanent` if there is something other than a file, or if the path is unsafe.
        """
        place, seen = found(self.name)
        if place is not None and seen is not None and stat.S_ISLNK(seen.st_mode):
            if self.follow_symlinks is False:
                return place, None
            try:
                led, seen = found(self.name, follow=True)
            except Unsafe:
                if self.follow_symlinks:
                    raise
                return place, None
            if led is None or seen is None:
                with os_errors("read link", self.name):
                    end = led.path if led is not None else place.readlink()
                raise Permanent(
                    f"cannot manage {self.name}: it is a dangling link to {end}; create the target first, "
                    "or set follow_symlinks: false to replace the link"
                )
            place = led
        if place is not None and seen is not None and not stat.S_ISREG(seen.st_mode):
            raise Permanent(f"cannot manage {place.path} as a file: it is {what(seen.st_mode)}; remove it first")
        return place, seen

    async def _compare(self, ctx: Context, comparison: Comparison) -> None:
        """Determine the wanted content, and compare it with the present content."""
        if comparison.seen is not None and not self.replace:
            return
        if await self._already(ctx, comparison):
            return
        comparison.wanted, source = await self._content(ctx, comparison.path, new=comparison.seen is None)
        if self.mode == "keep" and source is not None:
            comparison.owner = comparison.owner._replace(mode=source_mode(ctx, source))
        if comparison.wanted is not None:
            with os_errors("read", comparison.path):
                await compare(ctx, comparison, comparison.wanted)

    async def _already(self, ctx: Context, comparison: Comparison) -> bool:
        """Return whether a remote file need not be fetched.

        The present one has the declared hash, or the server says that its content is current.
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
        """Return the wanted content and its URL. None: any content is accepted, and a new file is empty."""
        data, url = None, None
        if self.source:
            sources = tuple((url, None) for url, _ in self.source) if self.skip_verify else self.source
            given, name = None if self.skip_verify else self.source_hash, self.source_hash_name or ""
            trusted = self.template is not None
            url, data = await content.fetch(ctx, sources, trusted=trusted, source_hash=given, name=name, path=self.name)
        elif (text := self._text(ctx)) is not None:
            data = self._encoded(text)
        if data is None:
            return (b"" if new else None), None
        if self.template:
            data = self._render(ctx, data, url or path)
        if not data and not self.allow_empty:
            raise Permanent(f"cannot manage {path}: its content is empty, and allow_empty is false")
        return data, url

    def _text(self, ctx: Context) -> str | None:
        """Return the content that the state itself gives."""
        text = self.contents
        if self.contents_pillar:
            text = content.lookup(ctx.pillar, self.contents_pillar, self.contents_delimiter, "pillar")
        elif self.contents_grains:
            text = content.lookup(ctx.facts, self.contents_grains, self.contents_delimiter, "grains")
        return None if text is None else content.finished(text, newline=self.contents_newline)

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self.encoding or "utf-8", self.encoding_errors)
        except UnicodeEncodeError as error:
            raise Permanent(
                f"cannot write {self.name}: {self.encoding or 'utf-8'} has no character {text[error.start]!r}"
            ) from None

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
        return self._encoded(ctx.render(content.decoded(data, name), name=name, variables=variables))

    # -- repairing ---------------------------------------------------------------------------------------------

    async def _put(self, ctx: Context, comparison: Comparison) -> None:
        seen, owner = comparison.seen, comparison.owner
        owner.demand(comparison.path)
        await ctx.assignment.announce()
        if (
            comparison.place is not None
            and seen is not None
            and not comparison.differs
            and not comparison.needs_new_file()
        ):
            ctx.report.touched = True
            with os_errors("change owner or mode of", comparison.path):
                owner.put(comparison.place, seen)
            if self.selinux is not None:
                self.selinux.put(comparison.place)
            return
        if comparison.place is None:
            demand_parent(comparison.path, makedirs=self.makedirs, apply=True)
            ctx.report.touched = True
            make_parents(comparison.path, owner, self._parent_mode())
            comparison.place = place_of(comparison.path)
        elif seen is not None and self.backup in {"minion", "both"}:
            await ctx.blocking(back_up, comparison.place, str(ctx.var_dir))
        uid, gid, mode = attributes_of_new(comparison, NEW_FILE)
        with os_errors("write", comparison.path):
            if comparison.wanted is None and seen is not None:
                comparison.wanted = await read(ctx, comparison.place, seen)
            await ctx.write_file(
                comparison.place, comparison.wanted or b"", mode=mode, uid=uid, gid=gid, check=self._checker(ctx)
            )

    def _parent_mode(self) -> int:
        declared = octal(self.dir_mode)
        if declared is not None:
            return declared
        return passable(int(self.mode, 8)) if self.mode not in {None, "keep"} else 0o755

    def _checker(self, ctx: Context) -> Callable[[str], Awaitable[None]] | None:
        """Return the check that `write_file` calls with the path of the temporary file before it replaces the file."""
        if self.selinux is None and not self.check_cmd:
            return None

        async def check(path: str) -> None:
            if self.selinux is not None:
                self.selinux.put(place_of(path))
            for command in self.check_cmd:
                done = await ctx.run(*shlex.split(command), path, check=False)
                if done.retcode != 0:
                    said = (done.stderr.strip() or done.stdout.strip() or f"status {done.retcode}").splitlines()[-1]
                    raise Permanent(
                        f"cannot replace {self.name}: check_cmd {command!r} refuses the new content: {said}"
                    )

        return check

    # -- reporting ---------------------------------------------------------------------------------------------

    def _report(
        self, ctx: Context, comparison: Comparison, wrong: dict[str, str], apply: bool, left: Collection[str] = ()
    ) -> None:
        """Report the changes as Salt does, and the diff, without the parts that are still `left` to be changed."""
        present = None if comparison.seen is None else comparison.seen.st_mode
        instead = hidden(self.show_changes, present, comparison.owner.mode)
        ctx.report.public = is_public(comparison.place, present, comparison.owner.mode)
        changes, diff = self._changes(comparison, wrong, instead, apply)
        changes = {part: change for part, change in changes.items() if part not in left}
        ctx.report.diff = "" if instead or "diff" in left else diff
        parts = " and ".join(["content" if part == "diff" else part for part in changes])
        effect = Effect(("change",), comparison.path, parts)
        if comparison.seen is None:
            foreseen = "" if apply else comparison.owner.of_new(NEW_FILE)
            effect = Effect(("create",), comparison.path, detail=foreseen)
        note(ctx, changes, effect, applied=apply)

    def _changes(
        self, comparison: Comparison, wrong: dict[str, str], instead: str, apply: bool
    ) -> tuple[dict[str, str], str]:
        """Return the changes as Salt does, with the diff, or `instead` if the diff is hidden."""
        if comparison.seen is None:
            diff = unified(b"", comparison.wanted or b"", comparison.path)
            changes = self._changes_of_new(comparison.owner) if apply else {"newfile": comparison.path}
            return ({**changes, "diff": instead or diff} if self.new_file_diff and diff else changes), diff
        if not comparison.differs:
            return wrong, ""
        diff = difference(comparison)
        return {"diff": instead or diff, **wrong}, diff

    def _changes_of_new(self, owner: Ownership) -> dict[str, str]:
        """Return the changes for a new file as Salt does: its differences from an empty file of mode 0600."""
        empty = all(getattr(self, word) in (None, ()) for word in CONTENT[:4])
        mode = NEW_FILE if owner.mode is None and self.source else owner.mode
        told = {} if mode in {None, PRIVATE} else {"mode": f"{mode:04o}"}
        told |= {"user": owner.user} if owner.user is not None and owner.uid != os.geteuid() else {}
        told |= {"group": owner.group} if owner.group is not None and owner.gid != os.getegid() else {}
        return {"new": f"file {self.name} created", **told} if empty else {"diff": "New file", **told}
