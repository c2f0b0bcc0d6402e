"""One run of a remote resource: Read, Check, Diff, and then create, update, replace or delete.

A run that finds nothing to do makes one call. The agent itself compares the resource with the declaration. Only if
something differs does it ask the provider to check the arguments and to compute the differences.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from holdfast.agent.phrases import first_of
from holdfast.agent.plugins.differences import Difference, differences
from holdfast.agent.plugins.values import has_unknown
from holdfast.agent.remote.calls import Conflicting, HalfMade, Present, RemoteCalls
from holdfast.agent.remote.kind import IDENTIFIER, RemoteKind, without_secrets
from holdfast.agent.remote.proof import proof, proves
from holdfast.agent.remote.record import ResourceRecord
from holdfast.agent.remote.shown_changes import ShownChanges
from holdfast.resources.context import Context
from holdfast.resources.effects import Effect, further
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.plugin import RemoteRecord

TRIES = 3
"""Most times that a resource is read again at once because something else has changed it meanwhile."""
NEW = Present("", {})
"""Stands for a resource that does not exist."""


class RemoteRun:
    """Checks one resource and, with `apply`, makes it as declared."""

    def __init__(
        self,
        kind: RemoteKind,
        name: str,
        ensure: Literal["present", "absent"],
        given: Mapping[str, Any],
        ctx: Context,
        *,
        apply: bool,
    ) -> None:
        self.kind, self.ensure, self.ctx, self.apply = kind, ensure, ctx, apply
        self.word = kind.model.name.rpartition(".")[2]
        self.what = f"{self.word} {name}"
        self.plugin = ctx.plugin(kind.package)
        if ensure == "absent":  # the things to which it refers may be gone
            given = {argument: value for argument, value in given.items() if not has_unknown(value)}
        self.masked = ShownChanges(kind, given)
        self.calls = RemoteCalls(kind, self.plugin, ctx.identity, {**kind.defaults, **given})
        self.key = kind.key(ctx.identity)
        self.record = ResourceRecord(self.calls, self.key)
        self._seen: Present | None = None
        """The resource before any change."""

    async def run(self) -> bool:
        """Return whether the resource was as declared. Raises an error if it cannot be made so."""
        self.ctx.assignment.expect_long_call()
        for _ in range(TRIES):
            with suppress(Conflicting):
                try:
                    return await self._run()
                except Exception:
                    if self.calls.cancelled:  # the run ends, whatever the result of the change is
                        raise self.calls.cancelled from None
                    raise
        raise Temporary(f"something else changes {self.what} at the same time")

    async def _run(self) -> bool:
        self.ctx.report.deletes_later = False
        if self.kind.from_environment and self.ensure == "present":
            await self.calls.check()
        record = await self.record.load()
        seen = await self.read(record)
        if record and self.record.former and self.ensure == "present" and (seen is None or self._replaces(seen)):
            record, seen = await self._returned(record, seen)
        self._seen = seen
        if self.ensure == "absent":
            cleared = await self._clear(self.ctx.assignment.users().left)
            return await self._absent(record, seen) and not cleared
        right = await self._present(record, seen)
        if self.ctx.report.deletes_later or not (right or self.apply):  # a plan reports what comes first
            return right
        return not await self._clear(self.ctx.assignment.users().left) and right

    # -- the resource and its record -----------------------------------------------------------------------------

    async def read(self, record: RemoteRecord | None) -> Present | None:
        """Return the resource as it is; None if it does not exist."""
        seen = await self.calls.read(record.id if record else "")
        self.kind.ids[self.key] = seen.id if seen else ""
        if seen and record and record.id != seen.id:
            self.calls.intent = ""  # the unfinished creation has created this resource
        return seen

    async def _returned(self, record: RemoteRecord, new: Present | None) -> tuple[RemoteRecord, Present | None]:
        """Return the record and the resource; after a replacement that was taken back, those of the former resource.

        Otherwise the run would delete the resource that the state declares, and create a new one.
        """
        for id_ in reversed(self.record.former):
            former = await self._left(id_)
            if former is not None and not self._replaces(former):
                self.record.former = tuple(each for each in (*self.record.former, record.id) if each not in ("", id_))
                record = self.record.of(former)
                self.kind.ids[self.key] = id_
                if self.apply:
                    await self.record.keep(record)
                return record, former
        return record, new

    async def _left(self, id_: str) -> Present | None:
        """Return a replaced resource; None if it is gone, even if the provider finds the new one in its place."""
        found = await self.calls.read(id_)
        return found if found is not None and found.id == id_ else None

    def _replaces(self, seen: Present) -> bool:
        return any(each.replaces for each in self._differences(seen))

    async def _clear(self, users: Sequence[str] = ()) -> bool:
        """Delete replaced resources that others no longer use; return whether any was deleted."""
        deleted = False
        for id_ in self.record.former:
            if (left := await self._left(id_)) is not None:
                if users and self.apply:
                    self._leave(f"the former {self.word} {id_}", users)
                    return deleted
                await self._delete_former(left)
                deleted = True
            await self.record.forget_former(id_, apply=self.apply)
        return deleted

    async def _delete_former(self, left: Present) -> None:
        """Delete a replaced resource. If that fails, this resource is usable nevertheless."""
        await self._announce()
        former = f"the former {self.word} {left.id}"
        try:
            await self._delete(left, f"{former} cannot be deleted")
        except (Permanent, Temporary):
            self.ctx.report.deletes_later = self.apply
            raise
        effect = self.ctx.report.effect
        if effect is None:
            effect = Effect(("remove",), self.what, former)
        else:
            effect = effect._replace(detail=effect.detail + further("remove", former, applied=self.apply))
        known = self.ctx.report.changes.get(IDENTIFIER, {}).get("old")
        change = {IDENTIFIER: {"old": f"{known}, {left.id}" if known else left.id, "new": None}}
        self._did(effect, change, self.ctx.report.before)

    async def _delete(self, seen: Present, failure: str) -> None:
        """Delete a resource, or ask whether that would be refused; `failure` begins the message of an error."""
        try:
            await self.calls.delete(seen, dry_run=not self.apply)
        except (Permanent, Temporary) as error:
            error.args = (f"{failure}: {error}",)
            raise

    def _leave(self, what: str, users: Sequence[str]) -> None:
        """Leave a deletion to a later run, after the runs of its users."""
        report = self.ctx.report
        report.deletes_later = True
        if report.effect is None:
            report.comment = f"{what} stays until {first_of(users)} {'has' if len(users) == 1 else 'have'} run"
        else:
            report.did(report.effect._replace(detail=f"{report.effect.detail}, kept {what}"), applied=True)

    # -- the declaration ----------------------------------------------------------------------------------------------

    async def _absent(self, record: RemoteRecord | None, seen: Present | None) -> bool:
        if seen is None:
            if record and self.apply and not self.record.former:
                await self.record.forget()
            return self._right(f"{self.what} is absent")
        users = self.ctx.assignment.users().left
        self._send_identifier(seen)
        if users and self.apply:
            self._leave(self.what, users)
            return True
        await self._announce()
        self.ctx.report.deletes_later = self.apply and bool(self.ctx.assignment.users().every)  # if it fails
        doubt = ""
        try:
            await self.calls.delete(seen, dry_run=not self.apply)
        except (Permanent, Temporary) as error:
            if self.apply or not users:
                raise
            doubt = f", may be refused: {error}"  # a plan cannot know what the server refuses once the users are gone
        self.ctx.report.deletes_later = False
        self._removed(seen, doubt)
        if self.apply:
            await self.record.forget()
        return False

    async def _present(self, record: RemoteRecord | None, seen: Present | None) -> bool:
        if seen is None:
            await self.calls.check()
            return await self._create()
        unfinished = record is not None and record.unfinished
        hidden = await self._differing(record, seen)
        if not self._differences(seen, hidden) and not unfinished:
            return await self._as_declared(record, seen)
        await self.calls.check()
        found, delete_first = await self.calls.diff(seen, hidden)
        if not found and not unfinished:
            return await self._as_declared(record, seen)
        if any(each.replaces for each in found):
            return await self._replace(seen, found, delete_first=delete_first)
        return await self._update(seen, found)

    def _differences(self, seen: Present, hidden: Sequence[str] = ()) -> list[Difference]:
        return differences(self.kind.model, seen.state, self.calls.inputs, (), hidden)

    async def _differing(self, record: RemoteRecord | None, seen: Present) -> tuple[str, ...]:
        """Return the write-only arguments that differ: the provider says so, or other values were sent last."""
        given = [name for name in self.kind.write_only if name in self.calls.inputs]
        if given and not await proves(self.ctx, self.kind, self.calls.inputs, record.hidden if record else ""):
            return tuple(given)
        return tuple(name for name in seen.differs if name in given)

    async def _as_declared(self, record: RemoteRecord | None, seen: Present) -> bool:
        """Record the resource if it has changed, and send the values that others receive."""
        if self.apply:
            state = self.kind.payloads.pack_state(self.kind.model, without_secrets(seen.state))
            stored = self.record.stored
            if stored is None or stored.intent or stored[:3] != (seen.id, state, self.kind.remote.version):
                await self.record.remember(seen, hidden=record.hidden if record else "")
        self._send(seen)
        return self._right(f"{self.what} is as declared")

    # -- changes -----------------------------------------------------------------------------------------------------

    async def _create(self) -> bool:
        def created(made: Present) -> dict[str, Any]:
            return self.masked.created({**made.state, **self.calls.inputs})

        await self._change(self._creation(), Effect(("create",), self.what), created, {})
        return False

    def _creation(self, former: Present | None = None) -> Callable[..., Awaitable[Present | None]]:
        """Return the call that creates the resource, perhaps in place of a former one."""

        async def create(*, dry_run: bool) -> Present | None:
            return await (self.calls.create(dry_run=True) if dry_run else self.record.create(former))

        return create

    async def _update(self, seen: Present, found: Sequence[Difference]) -> bool:
        names = ", ".join(each.path for each in found)
        effect = Effect(("change",), self.what, names) if names else Effect(("repair",), self.what)
        changes = self.masked.changed(seen.state, self.calls.inputs, found) or {
            "unfinished": {"old": True, "new": False}
        }

        async def update(*, dry_run: bool) -> Present | None:
            return await self.calls.update(seen, dry_run=dry_run)

        await self._change(update, effect, lambda _: changes, self.masked.before(seen.state, found))
        if not self.apply:
            self._send_identifier(seen)
        return False

    async def _replace(self, seen: Present, found: Sequence[Difference], *, delete_first: bool) -> bool:
        because = f"because of another {', '.join(each.path for each in found if each.replaces)}"
        effect = Effect(("replace",), self.what, detail=f", {because}")
        changes, before = (
            self.masked.changed(seen.state, self.calls.inputs, found),
            self.masked.before(seen.state, found),
        )
        users = self.ctx.assignment.users().every
        if delete_first or not self.apply:
            await self._announce()
            if delete_first or not users:
                await self._delete(seen, f"{self.what} must be replaced {because}, but cannot be deleted")
            if self.calls.cancelled:  # nothing is created in its place now
                self._removed(seen)
            if self.apply:
                await self.record.forget()
            detail = further("remove", f"the former {self.word} {seen.id}", applied=self.apply)
            effect = effect._replace(detail=effect.detail + detail)
            await self._change(self._creation(), effect, lambda _: changes, before)
            return False
        self.record.former = (*self.record.former, seen.id)
        made = await self._change(self._creation(seen), effect, lambda _: changes, before)
        if made.id == seen.id:
            self.record.former = self.record.former[:-1]
        elif users:
            self._leave(f"the former {self.word} {seen.id}", users)
        else:
            await self._delete_former(seen)
            await self.record.forget_former(seen.id, apply=self.apply)
        return False

    async def _change(
        self,
        change: Callable[..., Awaitable[Present | None]],
        effect: Effect,
        changes: Callable[[Present], dict[str, Any]],
        before: dict[str, Any],
    ) -> Present:
        """Create or update the resource, report that, and record it.

        With noop, only check and report. `changes` returns the changes, given the result. The report comes first,
        because a run that was cancelled meanwhile ends once the change is recorded.
        """
        await self._announce()
        try:
            made = await change(dry_run=not self.apply)
        except HalfMade as error:
            half = Present(error.id, error.state, error.revision)
            self._did(effect, changes(half), before)
            await self.record.remember(half, unfinished=True)
            raise error.failure from None
        self._did(effect, changes(made or NEW), before)
        if made is None:
            return NEW
        await self.record.remember(made, hidden=await proof(self.ctx, self.kind, self.calls.inputs))
        await self._demand_done(made)
        self._send(made)
        return made

    async def _demand_done(self, made: Present) -> None:
        """Raise `Permanent` if the resource that the provider has returned still differs."""
        if self._differences(made) and (left := (await self.calls.diff(made, ()))[0]):
            raise self.calls.defect("Create or Update", f"{', '.join(each.path for each in left)} still differ")

    # -- reports -----------------------------------------------------------------------------------------------------

    async def _announce(self) -> None:
        if self.apply:
            await self.ctx.assignment.announce()
            self.ctx.report.begin(self._account)

    async def _account(self) -> None:
        """After an error, report the differences from the resource before the run."""
        before, now = self._seen, await self.calls.read(self.kind.ids.get(self.key, ""))
        if before is None or now is None:
            if now is not None:
                self._did(Effect(("create",), self.what), self.masked.created(now.state), {})
            elif before is not None:
                self._removed(before)
            return
        old, new = self.masked.shown(before.state), self.masked.shown(now.state)
        changed = [name for name in self.kind.inputs if old.get(name) != new.get(name)]
        if changed:
            changes = {name: {"old": old.get(name), "new": new.get(name)} for name in changed}
            self._did(Effect(("change",), self.what, ", ".join(changed)), changes, {})

    def _right(self, comment: str) -> bool:
        self.ctx.report.comment = self.ctx.report.comment or comment
        return True

    def _did(self, effect: Effect, changes: dict[str, Any], before: dict[str, Any]) -> bool:
        self.ctx.report.changes = {**self.ctx.report.changes, **changes}
        self.ctx.report.before = before
        self.ctx.report.did(effect, applied=self.apply)
        return False

    def _removed(self, seen: Present, doubt: str = "") -> None:
        """Report that the resource has been deleted or, in a plan, would be, with what a plan cannot know."""
        known = {name: value for name, value in seen.state.items() if name in self.kind.inputs}
        self._did(
            Effect(("remove",), self.what, detail=doubt),
            self.masked.removed(known),
            self.masked.shown(known),
        )

    def _send_identifier(self, seen: Present) -> None:
        """Send the identifier of a resource that keeps it until it is gone."""
        self._send(Present(seen.id, {}))
        self.ctx.report.known = (IDENTIFIER,)

    def _send(self, seen: Present) -> None:
        """Send the values that others receive."""
        if not self.ctx.assignment.wanted:
            return
        known = {**self.masked.shown(seen.state), IDENTIFIER: seen.id}
        keys = [key for key in self.ctx.assignment.wanted if known.get(key) is not None]
        self.ctx.send(**{key: known[key] for key in keys})
