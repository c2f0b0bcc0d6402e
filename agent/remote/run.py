"""One run of a remote resource: Read, Check, Diff, and then create, update, replace or delete.

A run that finds nothing to do makes one call. The agent compares what was read with the declaration by itself; the
provider is asked to check the arguments, and for the differences, only if something differs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from holdfast.agent.plugins.differences import Difference, differences
from holdfast.agent.remote.calls import Conflicting, HalfMade, Present, RemoteCalls
from holdfast.agent.remote.kind import IDENTIFIER, RemoteKind, without_secrets
from holdfast.agent.remote.proof import proof, proves
from holdfast.resources.context import Context
from holdfast.resources.effects import Effect
from holdfast.resources.errors import Temporary
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
        values: dict[str, Any],
        ctx: Context,
        *,
        apply: bool,
    ) -> None:
        self.kind, self.ensure, self.ctx, self.apply = kind, ensure, ctx, apply
        self.what = f"{kind.model.name.rpartition('.')[2]} {name}"
        self.plugin = ctx.plugin(kind.package)
        self.calls = RemoteCalls(kind, self.plugin, ctx.identity, values)
        self.key = kind.key(ctx.identity)
        self._stored: RemoteRecord | None = None
        """What is remembered, as it was stored."""
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
                    if self.calls.cancelled:  # the run ends, whatever the change has led to
                        raise self.calls.cancelled from None
                    raise
        raise Temporary(f"something else changes {self.what} at the same time")

    async def _run(self) -> bool:
        if self.kind.from_environment and self.ensure == "present":
            await self.calls.check()
        record = await self.remembered()
        seen = await self.read(record)
        if record and record.replaced and self.ensure == "present" and (seen is None or self._replaces(seen)):
            record, seen = await self._returned(record, seen)
        self._seen = seen
        cleared = await self._clear(record)
        right = await (self._absent(record, seen) if self.ensure == "absent" else self._present(record, seen))
        if self.apply and record and record.unfinished:
            await self._clear(await self.remembered())
        return right and not cleared

    # -- what is, and what is remembered -----------------------------------------------------------------------------

    async def remembered(self) -> RemoteRecord | None:
        """Return what is remembered about the resource, in the form of the present version."""
        record = self._stored = await self.plugin.remembered(self.kind.token, self.key)
        if record is not None and record.version != self.kind.remote.version:
            record = await self.calls.upgraded(record)
        return record

    async def read(self, record: RemoteRecord | None) -> Present | None:
        """Return the resource as it is; None if it does not exist."""
        seen = await self.calls.read(record.id if record else "")
        self.kind.ids[self.key] = seen.id if seen else ""
        return seen

    async def _returned(self, record: RemoteRecord, new: Present | None) -> tuple[RemoteRecord, Present | None]:
        """Return what is remembered and what exists; after a replacement that was taken back, the former resource.

        Otherwise `_clear` would delete the resource that the state declares, and a new one would be made.
        """
        former = await self.calls.read(record.replaced)
        if former is None or former.id != record.replaced or self._replaces(former):
            return record, new
        record = self._record(former, replaced=record.id)
        self.kind.ids[self.key] = former.id
        if self.apply:
            await self._keep(record)
            self._stored = record
        return record, former

    def _replaces(self, seen: Present) -> bool:
        return any(each.replaces for each in self._differences(seen))

    def _record(self, seen: Present, **more: Any) -> RemoteRecord:
        """Return what is remembered about a resource."""
        state = self.kind.payloads.pack_state(self.kind.model, without_secrets(seen.state)) if seen.state else b""
        return RemoteRecord(seen.id, state, self.kind.remote.version, seen.revision, **more)

    async def _remember(self, seen: Present, **more: Any) -> None:
        """Remember a resource. It is durable on return."""
        self.kind.ids[self.key] = seen.id
        await self._keep(self._record(seen, **more))

    async def _keep(self, record: RemoteRecord | None) -> None:
        """Write down what a change has led to, and then end the run if it was cancelled meanwhile."""
        await self.plugin.remember(self.kind.token, self.key, record)
        if self.calls.cancelled:
            raise self.calls.cancelled

    async def _forget(self) -> None:
        self.kind.ids[self.key] = ""
        await self._keep(None)

    async def _clear(self, record: RemoteRecord | None) -> bool:
        """Delete what a replacement has left, once the new one is finished or unwanted; return whether it existed."""
        if record is None or record.replaced in ("", record.id):
            return False
        if record.unfinished and self.ensure == "present":
            return False
        left = await self.calls.read(record.replaced)
        if left is not None and left.id != record.replaced:  # it is gone, and the provider has found the new one
            left = None
        if left is not None:
            await self._announce()
            await self.calls.delete(left, dry_run=not self.apply)
            change = {IDENTIFIER: {"old": left.id, "new": None}}
            self._did(Effect(("remove",), f"the former {self.what}"), change, {})
        if self.apply:
            await self._keep(record._replace(replaced=""))
        return left is not None

    # -- what should be ----------------------------------------------------------------------------------------------

    async def _absent(self, record: RemoteRecord | None, seen: Present | None) -> bool:
        if seen is None:
            if record and self.apply:
                await self._forget()
            return self._right(f"{self.what} is absent")
        await self._announce()
        await self.calls.delete(seen, dry_run=not self.apply)
        self._removed(seen)
        if self.apply:
            await self._forget()
        return False

    async def _present(self, record: RemoteRecord | None, seen: Present | None) -> bool:
        replaced = record.replaced if record and record.unfinished else ""
        if seen is None:
            await self.calls.check()
            return await self._create(replaced)
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
        return await self._update(seen, found, replaced)

    def _differences(self, seen: Present, hidden: Sequence[str] = ()) -> list[Difference]:
        return differences(self.kind.model, seen.state, self.calls.inputs, (), hidden)

    async def _differing(self, record: RemoteRecord | None, seen: Present) -> tuple[str, ...]:
        """Return the write-only arguments that differ: the provider says so, or others were sent last."""
        given = [name for name in self.kind.write_only if name in self.calls.inputs]
        if given and not await proves(self.ctx, self.kind, self.calls.inputs, record.hidden if record else ""):
            return tuple(given)
        return tuple(name for name in seen.differs if name in given)

    async def _as_declared(self, record: RemoteRecord | None, seen: Present) -> bool:
        """Remember what was read, if that is new, and send what others receive."""
        if self.apply:
            state = self.kind.payloads.pack_state(self.kind.model, without_secrets(seen.state))
            if self._stored is None or self._stored[:3] != (seen.id, state, self.kind.remote.version):
                await self._remember(seen, hidden=record.hidden if record else "")
        self._send(seen)
        return self._right(f"{self.what} is as declared")

    # -- changes -----------------------------------------------------------------------------------------------------

    async def _create(self, replaced: str) -> bool:
        changes = {
            name: {"old": None, "new": self.kind.shown(name, value)} for name, value in self.calls.inputs.items()
        }
        effect = Effect(("create",), self.what)
        await self._change(self.calls.create, effect, changes, {}, replaced)
        return False

    async def _update(self, seen: Present, found: Sequence[Difference], replaced: str) -> bool:
        names = ", ".join(each.path for each in found)
        effect = Effect(("change",), self.what, names) if names else Effect(("repair",), self.what)
        changes = self._changes(seen, found) or {"unfinished": {"old": True, "new": False}}

        async def update(*, dry_run: bool) -> Present | None:
            return await self.calls.update(seen, dry_run=dry_run)

        await self._change(update, effect, changes, self._before(seen, found), replaced)
        return False

    async def _replace(self, seen: Present, found: Sequence[Difference], *, delete_first: bool) -> bool:
        reasons = ", ".join(each.path for each in found if each.replaces)
        effect = Effect(("replace",), self.what, detail=f", because of another {reasons}")
        changes, before = self._changes(seen, found), self._before(seen, found)
        if delete_first or not self.apply:
            await self._announce()
            await self.calls.delete(seen, dry_run=not self.apply)
            if self.calls.cancelled:  # nothing is created in its place now
                self._removed(seen)
            if self.apply:
                await self._forget()
            await self._change(self.calls.create, effect, changes, before)
            return False
        made = await self._change(self.calls.create, effect, changes, before, replaced=seen.id)
        if made.id != seen.id:
            await self.calls.delete(seen, dry_run=False)
        await self._remember(made, hidden=await proof(self.ctx, self.kind, self.calls.inputs))
        return False

    async def _change(
        self,
        change: Callable[..., Awaitable[Present | None]],
        effect: Effect,
        changes: dict[str, Any],
        before: dict[str, Any],
        replaced: str = "",
    ) -> Present:
        """Create or update the resource, report that, and remember it. With noop, only ask and report.

        The report comes first, because a run that was cancelled meanwhile ends when the change is remembered.
        """
        await self._announce()
        try:
            made = await change(dry_run=not self.apply)
        except HalfMade as error:
            self._did(effect, changes, before)
            await self._remember(Present(error.id, error.state, error.revision), unfinished=True, replaced=replaced)
            raise error.failure from None
        self._did(effect, changes, before)
        if made is None:
            return NEW
        hidden = await proof(self.ctx, self.kind, self.calls.inputs)
        await self._remember(made, hidden=hidden, replaced=replaced)
        await self._demand_done(made)
        self._send(made)
        return made

    async def _demand_done(self, made: Present) -> None:
        """Raise `Permanent` if the resource still differs, by what the provider has returned."""
        if self._differences(made) and (left := (await self.calls.diff(made, ()))[0]):
            raise self.calls.defect("Create or Update", f"{', '.join(each.path for each in left)} still differ")

    # -- reports -----------------------------------------------------------------------------------------------------

    async def _announce(self) -> None:
        if self.apply:
            await self.ctx.assignment.announce()
            self.ctx.report.begin(self._account)

    async def _account(self) -> None:
        """After an error, report what differs from the resource before the run."""
        now = await self.calls.read(self.kind.ids.get(self.key, ""))
        old, new = (self._shown(each.state) if each else {} for each in (self._seen, now))
        changed = [name for name in self.kind.inputs if old.get(name) != new.get(name)]
        changes = {name: {"old": old.get(name), "new": new.get(name)} for name in changed}
        if (now is None) != (self._seen is None):
            self._did(Effect(("create",) if now else ("remove",), self.what), changes, {})
        elif changes:
            self._did(Effect(("change",), self.what, ", ".join(changed)), changes, {})

    def _right(self, comment: str) -> bool:
        self.ctx.report.comment = self.ctx.report.comment or comment
        return True

    def _did(self, effect: Effect, changes: dict[str, Any], before: dict[str, Any]) -> bool:
        self.ctx.report.changes = {**self.ctx.report.changes, **changes}
        self.ctx.report.before = before
        self.ctx.report.did(effect, applied=self.apply)
        return False

    def _removed(self, seen: Present) -> None:
        """Report that the resource has been deleted."""
        known = {name: value for name, value in seen.state.items() if name in self.kind.inputs}
        changes = {name: {"old": self.kind.shown(name, value), "new": None} for name, value in known.items()}
        self._did(Effect(("remove",), self.what), changes, self._shown(known))

    def _changes(self, seen: Present, found: Sequence[Difference]) -> dict[str, Any]:
        """Return the old and the new value of each argument that differs."""
        old, new = self._shown(seen.state), self._shown(self.calls.inputs)
        return {each.path: {"old": old.get(each.path), "new": new.get(each.path)} for each in found}

    def _before(self, seen: Present, found: Sequence[Difference]) -> dict[str, Any]:
        return self._shown({each.path: seen.state[each.path] for each in found if each.path in seen.state})

    def _shown(self, values: Any) -> dict[str, Any]:
        return {name: self.kind.shown(name, value) for name, value in values.items()}

    def _send(self, seen: Present) -> None:
        """Send what others receive."""
        if not self.ctx.assignment.wanted:
            return
        known = {**self._shown(seen.state), IDENTIFIER: seen.id}
        keys = [key for key in self.ctx.assignment.wanted if known.get(key) is not None]
        self.ctx.send(**{key: known[key] for key in keys})
