"""Optional capabilities of a kind, each a mix-in with few methods.

The engine tests `isinstance(resource, Refreshable)`. A kind without the mix-in does not have the capability, even if it
defines the methods.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from holdfast.resources.context import Context, Services
from holdfast.resources.dependencies import Dependency

if TYPE_CHECKING:
    from holdfast.resources.meta import Receive


class Refreshable:
    """Acts when a resource that it watches has changed, like Salt's `mod_watch`."""

    @abstractmethod
    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Act on the change (restart, reload, run again).

        The contract is that of `check_apply`: return True if nothing had to be done, else False; without `apply`,
        change nothing. A refresh is delivered at least once, so the action must be harmless when repeated.
        """


class Declaration(NamedTuple):
    """A state as data, with the arguments of a state file: it describes the machine before a repair."""

    kind: str
    """`family.function`."""
    arguments: dict[str, Any]
    """Arguments, `name` included. Plain data: the declaration is stored on disk."""
    kept: str = ""
    """A file in the resource's own directory that the declaration needs; removed once the reversal has run."""


class Reversible:
    """Can be undone when its state is removed (`reverse: true`)."""

    @abstractmethod
    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present state of the thing as a declaration; None if no declaration describes it.

        Called before the first repair; the result is kept until the state is removed. Changes nothing.
        """


class UsedSource(NamedTuple):
    """One source that a resource is made from."""

    url: str
    """The URL, as written in the state."""
    view: str = ""
    """Name of the view that `read` returns; empty for the content of a file."""
    read: Callable[[str], bytes] | None = None
    """Returns the view of a path. Blocks, and raises `OSError` and `HoldfastError`."""
    inside: Callable[[bytes], Iterable[str]] | None = None
    """Returns the names of the files below a directory that are sources as well, given its view."""
    choice: bool = False
    """Whether this is one of several alternatives: the first one that exists is used."""
    template: bool = False
    """Whether the source is a template; for a directory, whether each file in it is one."""


class FromSources:
    """Is made from files that the state names.

    Files of the states directory belong to the states: new content of such a file is a change of the states.
    """

    @abstractmethod
    def used_sources(self) -> Iterable[UsedSource]:
        """Yield the sources. Pure and cheap: called at each change of the states."""

    def outside_paths(self, ctx: Context) -> list[str]:
        """Return the paths of sources on this host outside the states directory, which the resource has to watch."""
        return [path for path in (ctx.source_outside(used.url) for used in self.used_sources()) if path is not None]

    def inline(self) -> tuple[tuple[str, str], ...]:
        """Return the templates in the resource's own arguments: (argument, text). Pure and cheap."""
        return ()


class Edgeable:
    """Takes part in automatic edges: a resource waits for the resources that offer its dependencies.

    An edge exists only where the order of execution allows it. Both methods are pure and cheap: they are called for
    each resource at each change of the states.
    """

    def offers(self) -> tuple[tuple[str, str], ...]:
        """Return the uids that exist once this resource is as declared. Default: the uids of the resource."""
        return self.uids()  # type: ignore[attr-defined,no-any-return] # every kind is a Resource

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the things that must exist for this resource to work and that other resources may manage."""
        return ()


class Reactive:
    """An action that runs again at each event of its watch, such as a command that follows a file.

    The state says what to watch. A failed watch neither ends a run of the action nor starts one.
    """

    reaction: ClassVar[frozenset[str]] = frozenset()
    """Fields that say what to react to. When only their values change, the action need not run again."""

    @abstractmethod
    def reacts(self) -> bool:
        """Return whether the state gives something to watch."""


class Backed:
    """Needs a background task that all resources of its kind share: one connection, one stream of events."""

    @classmethod
    @abstractmethod
    def background(cls, services: Services) -> AsyncIterator[Any]:
        """Run the task. Its first item becomes `ctx.background` and says that the task is ready.

        Later items have no meaning.

        The task starts before the first watch of its kind and is cancelled after the last resource is removed. A task
        that raises an exception or ends is started again, together with the watches.
        """


class Sendable:
    """Sends values to other resources after a run: a command its output, a user its number."""

    sends: ClassVar[Mapping[str, type]] = {}
    """Key -> type (`str`, `int`, `float`, `bool`, `list`, `dict`); `ctx.send` accepts no other keys."""
    instead: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Key -> keys that are not sent if another resource receives this key."""


class Recvable:
    """Receives values for its arguments from other resources (`recv`); for all arguments except the name."""


class Later(enum.Enum):
    """The type of `LATER`."""

    LATER = "received later"


LATER: Final = Later.LATER
"""Stands for an argument of a `Referring` kind whose value another resource sends."""


class Referring(Recvable):
    """Names other states in its arguments, and receives the identifiers of their things once these exist.

    Its fields accept `LATER`.
    """

    @classmethod
    @abstractmethod
    def references(cls, arguments: Mapping[str, Any]) -> tuple[Receive, ...]:
        """Return the states that valid arguments of a state file name. Pure and cheap."""

    @abstractmethod
    def is_absent(self) -> bool:
        """Return whether the thing should not exist."""

    @abstractmethod
    def is_known_by(self, argument: str) -> bool:
        """Return whether an argument identifies the thing. Only such arguments matter if the thing should be absent."""


class Member(NamedTuple):
    """One of several resources that are repaired together."""

    resource: Any
    ctx: Context
    work: Any
    """The difference to repair, which its probe has found."""


class Groupable:
    """Several resources of this kind can be repaired together, at less cost: packages, in one transaction."""

    @abstractmethod
    def group(self) -> Hashable:
        """Return the key of the batch: resources with equal keys can be repaired together. None: only alone."""

    @classmethod
    @abstractmethod
    async def apply_together(cls, members: Sequence[Member]) -> Sequence[Any]:
        """Repair all members; return for each what its own `apply` would return, in the same order.

        If it raises `Temporary`, that is the result of every member. After any other error each member is repaired
        alone, so changes made before the error must not prevent these repairs.
        """


async def together(resource: Any, ctx: Context, work: Any, alone: Callable[[], Awaitable[Any]]) -> Any:
    """Repair the difference `work` that a probe has found: by `alone`, or together with other members of the batch."""
    if ctx.assignment.batch is None:
        return await alone()
    return await ctx.assignment.batch.join(Member(resource, ctx, work), alone)
