"""The `Assignment`: what the engine gives to one run of a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.resources.errors import DeclarationError

Method = TypeVar("Method", bound=Callable[..., Any])


class Together(Protocol):
    """Runs that change the machine in one transaction (`traits.Groupable`)."""

    async def join(self, member: Any, alone: Callable[[], Awaitable[Any]]) -> Any:
        """Wait until the transaction has run for all members; return this member's part of its result."""
        ...


class Received(NamedTuple):
    """Value of an argument that another resource has sent."""

    value: Any
    changed: bool
    """Whether the value differs from the one in the last successful run."""


class Users(NamedTuple):
    """Identities of the resources that may use what a run would delete."""

    every: Sequence[str] = ()
    left: Sequence[str] = ()
    """The users that have not run since the resource reported `deletes_later`."""


def no_users() -> Users:
    """Return the users of a resource that no other resource uses."""
    return Users()


class Assignment(NamedTuple):
    """What the engine gives to one run."""

    batch: Together | None = None
    """The batch in which the resource is to be repaired, if any."""
    intent: Callable[[], Awaitable[None]] | None = None
    """Records that the run is about to change something."""
    leaf: bool = False
    """Whether directories may be flushed later: no resource depends on this one, and it has no journal entry."""
    sends: Mapping[str, type] | None = None
    """What the kind may send, key -> type; None if no resource receives from this one."""
    wanted: Collection[str] = ()
    """The keys that other resources receive."""
    received: Mapping[str, Received] = MappingProxyType({})
    """The arguments that others have sent. The resource's fields have these values already."""
    release_worker: Callable[[], None] | None = None
    """Lets another resource run, although this run goes on."""
    users: Callable[[], Users] = no_users
    """Returns the resources that may use what the run would delete."""

    async def announce(self) -> None:
        """Record that the run is about to change something; the record is durable on return. May be called again.

        Kinds with `@announced` await this before their first change. Raises `Temporary` if the record cannot be
        written.
        """
        if self.intent is not None:
            await self.intent()

    def expect_long_call(self) -> None:
        """Let other resources run meanwhile: this run is about to make a call that may take long."""
        if self.release_worker is not None:
            self.release_worker()

    def demand_sendable(self, values: Mapping[str, Any]) -> None:
        """Raise `DeclarationError` for keys and types that the kind does not declare."""
        for key, value in values.items():
            declared = object if self.sends is None else self.sends.get(key)
            if declared is None:
                raise DeclarationError(f"cannot send {key!r}: the kind declares no such key in `sends`")
            if not isinstance(value, declared):
                raise DeclarationError(
                    f"cannot send {key!r}: the value is {type(value).__name__}, but the kind declares "
                    f"{declared.__name__}"
                )


UNASSIGNED = Assignment()
"""Assignment of all resources that do not run at present."""


def announced(check_apply: Method) -> Method:
    """Mark a `check_apply` that awaits `ctx.assignment.announce()` before its first change.

    The engine assumes that any other `check_apply` changes something at once, and records this before each run.
    """
    vars(check_apply)["announced"] = True
    return check_apply


def announces(check_apply: Callable[..., Any]) -> bool:
    """Return whether a `check_apply` is marked by `announced`."""
    return getattr(check_apply, "announced", False)
