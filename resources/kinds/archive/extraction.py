"""One run of `archive.extracted`: find the differences and extract them."""

from __future__ import annotations

import asyncio
import fnmatch
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.downloads import DownloadedFile
from holdfast.resources.effects import Effect
from holdfast.resources.errors import ChangedMeanwhile, HoldfastError, Permanent, Temporary
from holdfast.resources.kinds.archive import record
from holdfast.resources.kinds.archive.arguments import ExtractedArguments
from holdfast.resources.kinds.archive.manifest import (
    ComparisonOptions,
    Manifest,
    ManifestItem,
    TreeDifference,
    Walker,
    compare,
    looked,
    ordered,
    read,
)
from holdfast.resources.kinds.archive.members import BadArchive, ExtractionBudget, shown
from holdfast.resources.kinds.archive.origin import Archive, Origin
from holdfast.resources.kinds.archive.reading import members_of
from holdfast.resources.kinds.archive.stage import Stage
from holdfast.resources.kinds.file.base import Ownership, found, note, os_errors
from holdfast.resources.kinds.file.removal import remove_below
from holdfast.resources.kinds.file.trees import Recursion, repair_tree, surplus
from holdfast.resources.paths import SafeDirectory, Unsafe
from holdfast.resources.paths.handle import what

REPORT = 5.0
"""Seconds between two reports of progress."""


@dataclass
class ExtractionResult:
    """What a run has done, or would do."""

    made: bool = False
    """Whether the run created the directory."""
    extracted: Sequence[str] = ()
    removed: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)


class Extraction:
    """One run."""

    def __init__(self, state: ExtractedArguments, ctx: Context, owner: Ownership, *, apply: bool) -> None:
        self._state, self._ctx, self._owner, self._apply = state, ctx, owner, apply
        self._name = state.name.rstrip("/")
        self._origin = Origin(state, ctx)
        self._done = ExtractionResult()
        self._stopped = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._told = time.monotonic()

    async def run(self) -> bool:
        """Return whether everything was as declared; with `apply`, repair it."""
        known, unknown = record.load(self._ctx), None
        try:
            current = known is not None and await self._origin.is_current(known)
        except Temporary as error:  # its files stay as they are
            current, unknown = True, error
        right = await self._compared(known if current else None)
        if unknown is not None:
            raise unknown
        return right

    async def _compared(self, known: record.KnownExtraction | None) -> bool:
        """Compare and repair; `known` is the extraction of the archive as it is now, None if there was none."""
        if known is not None and self._state.skip_files_list_verify:
            return self._right("the archive has already been extracted, and the state does not check its files")
        manifest = None if known is None else await self._ctx.long_blocking(record.members, self._ctx, known)
        archive = None
        if manifest is None:
            known, archive = None, await self._origin.fetch()
            if not self._apply or await self._ctx.blocking(self._holds_something):
                manifest = await self._in_thread(self._read, archive)
        since = time.time_ns()
        difference = None if manifest is None else await self._in_thread(self._differs, manifest)
        if manifest is not None and difference is not None and not difference.differs and not self._done.owners:
            if self._apply:
                await self._refresh(known, archive, manifest, difference, since)
            return self._right(f"{self._state.name} has all members of {self._origin.url}")
        if self._apply:
            await self._repair(known, archive, manifest, difference)
        elif difference is not None:
            self._done.extracted = difference.extracted
        self._report()
        return False

    def _right(self, comment: str) -> bool:
        self._ctx.report.comment = comment
        return True

    # -- the archive -------------------------------------------------------------------------------------------

    def _members(self, archive: DownloadedFile, budget: ExtractionBudget) -> Iterator[Any]:
        state = self._state
        return members_of(archive.handle, state.rules, budget, wanted=state.archive_format, password=state.password)

    def _read(self, archive: Archive) -> Manifest:
        """Return what an archive contains. Blocks."""
        with self._named():
            budget = self._state.budget
            manifest = read(self._members(archive.file, budget), budget, self._stop)
            self._demand_top(manifest)
            return manifest

    def _demand_top(self, manifest: Manifest) -> None:
        tops = [item for path, item in manifest.items() if "/" not in path]
        if not tops:
            raise BadArchive("it has no members")
        if self._state.enforce_toplevel and (len(tops) > 1 or tops[0].type != "directory"):
            raise BadArchive(
                "its top level is not exactly one directory; to extract it anyway, set enforce_toplevel: false"
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the archive in errors."""
        try:
            with os_errors("extract into", self._state.name):
                yield
        except BadArchive as error:
            raise Permanent(f"cannot extract {self._origin.url}: {error}") from None

    # -- comparing ---------------------------------------------------------------------------------------------

    def _top(self) -> SafeDirectory | None:
        """Return the directory; None if it does not exist. Raises `OSError`, `Permanent` and `Unsafe`."""
        place, seen = found(self._state.name, follow=True)
        if place is None or seen is None:
            return None
        if not stat.S_ISDIR(seen.st_mode):
            raise Permanent(f"cannot extract into {self._state.name}: it is not a directory but {what(seen.st_mode)}")
        return paths.directory(self._state.name)

    @property
    def _given(self) -> tuple[int, int]:
        """The owner and the group of all members; -1 for the agent's."""
        return (-1, -1) if self._state.enforce_ownership_on is not None else (self._owner.uid, self._owner.gid)

    def _demand_own(self, top: SafeDirectory, item: ManifestItem) -> None:
        """Raise `Unsafe` for a directory that would be created where another user could replace it."""
        uid = self._given[0]
        theirs = top.holders and not (uid >= 0 and top.holders == {uid})
        if item.type == "directory" and theirs:
            more = " without enforce_ownership_on" if self._state.enforce_ownership_on else ""
            raise Unsafe(
                f"cannot extract directories into {self._state.name}: {top.reason}; if that user should own what is "
                f"extracted, declare user{more}"
            )

    def _existing(self) -> SafeDirectory:
        """Return the directory, which has just been created or seen."""
        top = self._top()
        if top is None:
            raise ChangedMeanwhile(f"cannot extract into {self._state.name}: it was removed meanwhile")
        return top

    def _holds_something(self) -> bool:
        """Return whether the directory has entries. Blocks."""
        with os_errors("inspect", self._state.name):
            top = self._top()
            return top is not None and next(top.names(), None) is not None

    def _differs(self, manifest: Manifest) -> TreeDifference:
        """Return the differences from the members. Blocks."""
        with os_errors("compare", self._state.name):
            top = self._top()
            if top is not None:
                for item in manifest.values():
                    self._demand_own(top, item)
            difference = compare(top, manifest, self._comparison(manifest))
            self._done.made = top is None
            if difference.conflicts and not self._state.force:
                path = difference.conflicts[0]
                raise Permanent(
                    f"cannot extract {self._origin.url}: {self._name}/{shown(path)} is there, and no "
                    f"{manifest[path].type}; to replace it, set force: true"
                )
            self._done.owners = [*difference.owners, *self._enforced(apply=False)]
        return difference

    def _comparison(self, manifest: Manifest) -> ComparisonOptions:
        begin = len(self._name) + 1
        left = {path[begin:] for path in self._ctx.managed_below(self._name)}
        left |= {path for path in manifest if any(fnmatch.fnmatchcase(path, glob) for glob in self._state.editable)}
        return ComparisonOptions(*self._given, left)

    def _enforced(self, *, apply: bool) -> list[str]:
        """Return the paths below `enforce_ownership_on` with a wrong owner; with `apply`, change their owner."""
        path, wrong = self._state.enforce_ownership_on, dict[str, dict[str, str]]()
        place, seen = (None, None) if path is None else found(path)
        if path is None or place is None or seen is None:
            return []
        if self._owner.wrong(seen):
            wrong[path] = self._owner.wrong(seen)
        if stat.S_ISDIR(seen.st_mode):
            repair_tree(place.enter(), Recursion(self._owner, self._owner), wrong, apply=apply)
        if apply and path in wrong:
            self._owner.put(place, seen)
        return list(wrong)

    # -- repairing ---------------------------------------------------------------------------------------------

    async def _repair(
        self,
        known: record.KnownExtraction | None,
        archive: Archive | None,
        manifest: Manifest | None,
        difference: TreeDifference | None,
    ) -> None:
        self._owner.demand(self._state.name)
        if archive is None and difference is not None and difference.extracted:
            archive = await self._origin.fetch(known)
        await self._ctx.assignment.announce()
        self._ctx.report.account = self._account
        if archive is not None and (difference is None or difference.extracted):
            since = time.time_ns()
            manifest = await self._in_thread(self._extract, archive, manifest, difference, since)
            await self._save(known, archive, manifest)
        if self._done.owners or self._state.enforce_ownership_on is not None:
            await self._in_thread(self._give, [] if difference is None else difference.owners)

    async def _account(self) -> None:
        """After an error, report what had been moved into place before it."""
        if self._done.extracted or self._done.removed:
            self._done.owners = []
            self._report()

    def _extract(
        self,
        archive: Archive,
        manifest: Manifest | None,
        difference: TreeDifference | None,
        since: int,
    ) -> Manifest:
        """Extract what differs, or everything; return the content of the directory after that. Blocks."""
        made: list[str] = []
        with self._named():
            try:
                made = paths.make_parents(f"{self._name}/x", self._owner.uid, self._owner.gid)
                self._done.made = bool(made)
                top = self._existing()
                manifest, moved = self._staged(top, archive, manifest, difference)
            except BaseException:
                for path in reversed(made):
                    with suppress(OSError, HoldfastError):
                        paths.at(path).rmdir()
                raise
            self._clean(top, manifest)
            return looked(top, manifest, moved, since)

    def _staged(
        self,
        top: SafeDirectory,
        archive: Archive,
        manifest: Manifest | None,
        difference: TreeDifference | None,
    ) -> tuple[Manifest, list[str]]:
        """Extract into a private directory, then move what differs into place."""
        uid, gid = self._given
        budget = self._state.budget
        with Stage(top, budget, uid, gid, self._stop, self._tell, partial(self._demand_own, top)) as stage:
            wanted = None if manifest is None or difference is None else _with_origins(manifest, difference.extracted)
            stage.extract(self._members(archive.file, budget), wanted)
            self._demand_top(stage.manifest)
            moving = ordered(stage.manifest if difference is None else difference.extracted)
            moved: list[str] = []
            self._done.extracted = moved
            stage.place(moving, moved, self._ctx.report.changing)
        fresh = {path: stage.manifest[path] for path in moving}
        return {**(stage.manifest if manifest is None else manifest), **fresh}, moved

    def _clean(self, top: SafeDirectory, manifest: Manifest) -> None:
        """Remove what the archive does not have, if the state asks for that."""
        for path in self._surplus(top, manifest):
            self._stop()
            self._ctx.report.changing()
            remove_below(top, path)
            self._done.removed.append(path)

    def _surplus(self, top: SafeDirectory, manifest: Manifest) -> list[str]:
        keep = [f"{top.path}/{path}{'/.' if item.type == 'directory' else ''}" for path, item in manifest.items()]
        keep += self._ctx.managed_below(self._name)
        if self._state.clean_parent:
            return surplus(top, keep, ())
        walker, extra = Walker(top), list[str]()
        tops = [path for path, item in manifest.items() if "/" not in path and item.type == "directory"]
        for path in ordered(tops) if self._state.clean else ():
            inside = walker.directory(path)
            extra += [] if inside is None else surplus(inside, keep, ())
        return extra

    def _give(self, owners: Sequence[str]) -> None:
        """Give paths their declared owner. Blocks."""
        with os_errors("change owner of", self._state.name):
            top = self._top()
            walker = None if top is None else Walker(top)
            for path in owners:
                place = None if walker is None else walker.place(path)
                seen = None if place is None else place.look()
                if place is not None and seen is not None:
                    self._ctx.report.changing()
                    self._owner.put(place, seen)
            self._done.owners = [*owners, *self._enforced(apply=True)]

    # -- the record --------------------------------------------------------------------------------------------

    async def _refresh(
        self,
        known: record.KnownExtraction | None,
        archive: Archive | None,
        manifest: Manifest,
        difference: TreeDifference,
        since: int,
    ) -> None:
        """Record which files are correct, so that they need not be read again."""
        fresh = await self._in_thread(self._looked, manifest, difference.hashed, since)
        if known is None or fresh is not None:
            await self._save(known, archive, fresh or manifest)

    def _looked(self, manifest: Manifest, hashed: Sequence[str], since: int) -> Manifest | None:
        """Return the manifest with present metadata; None if they have not changed. Blocks."""
        with os_errors("inspect", self._state.name):
            top = self._top()
            fresh = manifest if top is None else looked(top, manifest, hashed, since)
            return None if fresh == manifest else fresh

    async def _save(self, known: record.KnownExtraction | None, archive: Archive | None, manifest: Manifest) -> None:
        sha256 = known.sha256 if known is not None else archive.file.sha256 if archive is not None else ""
        declared = archive.declared if archive is not None else known.declared if known is not None else ""
        now = record.KnownExtraction(sha256, declared, self._state.name, record.spelled(self._state.rules))
        with os_errors("write the record of", self._state.name):
            await record.save(self._ctx, now, manifest)

    # -- in threads --------------------------------------------------------------------------------------------

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a long call in a thread; it ends soon after the run is cancelled."""
        try:
            return await self._ctx.long_blocking(call, *args)
        except asyncio.CancelledError:
            self._stopped.set()
            raise

    def _stop(self) -> None:
        """Raise `Temporary` if the run was cancelled."""
        if self._stopped.is_set():
            raise Temporary(f"the extraction of {self._origin.url} was ended")

    def _tell(self, written: int) -> None:
        """Report progress from time to time. Called in the thread."""
        if time.monotonic() - self._told > REPORT:
            self._told = time.monotonic()
            text = f"{self._origin.url}: {written / (1 << 20):.1f} MiB extracted"
            with suppress(RuntimeError):  # the agent has ended meanwhile
                self._loop.call_soon_threadsafe(self._ctx.tell_progress, text)

    # -- reporting ---------------------------------------------------------------------------------------------

    def _report(self) -> None:
        done, most = self._done, self._state.reported
        changes: dict[str, Any] = {"directories_created": [f"{self._name}/"]} if done.made else {}
        changes |= {"extracted_files": list(done.extracted[:most])} if done.extracted else {}
        changes |= {"removed": done.removed[:most]} if done.removed else {}
        changes |= {"updated ownership": True} if done.owners else {}
        number = len(done.extracted) + len(done.removed) + len({*done.owners}.difference(done.extracted))
        entries = f"{number} {'entry' if number == 1 else 'entries'}"
        effect = Effect(("change",), self._state.name, entries)
        if done.made:
            effect = Effect(("create",), f"{entries} in {self._state.name}")
        note(self._ctx, changes, effect, applied=self._apply)


def _with_origins(manifest: Manifest, wanted: Sequence[str]) -> set[str]:
    """Return paths and, for paths that are another name of a file, the path of that file."""
    found_, left = set[str](), list(wanted)
    while left:
        path = left.pop()
        if path not in found_:
            found_.add(path)
            left += [manifest[path].origin] if manifest[path].origin else []
    return found_
