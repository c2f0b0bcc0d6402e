"""Optional powers of a kind, each a mix-in with the least possible number of methods.

The engine asks `isinstance(resource, Refreshable)`; a kind without the mix-in has not got the power, whatever
methods it happens to define.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from holdfast.resources.context import Context, Services
from holdfast.resources.needs import Need


class Refreshable:
    """Has an action for "something you watch has changed": Salt's `mod_watch`."""

    @abstractmethod
    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Act on the change (restart, reload, run again).

        The contract of `check_apply`: False when something was done, or would be without `apply`; True when nothing
        had to be. Delivered at least once, so doing it twice must be harmless.
        """


class Declaration(NamedTuple):
    """A state as data: what the machine was before it was put right, in the words of a state file."""

    kind: str
    """`family.function`."""
    arguments: dict[str, Any]
    """Its arguments, the name among them; plain data, for it is kept on disk."""
    kept: str = ""
    """A file that the declaration needs, in the resource's own directory; removed when all is undone."""


class Reversible:
    """Can be undone when its state is taken away (`reverse: true`)."""

    @abstractmethod
    async def inverse(self, ctx: Context) -> Declaration | None:
        """The declaration of what is now, as far as this resource reaches; None when it cannot be put into words.

        Asked before the resource is put right for the first time, and kept until its state has left. Changes nothing.
        """


class Drawn(NamedTuple):
    """One source of a resource."""

    url: str
    """As the state names it."""
    view: str = ""
    """The name of what is looked at, where that is not the content of a file."""
    read: Callable[[str], bytes] | None = None
    """Reads that, given the path; it blocks, and raises `OSError` and `HoldfastError`."""
    inside: Callable[[bytes], Iterable[str]] | None = None
    """Given what was read of a directory: the names of the files below it that are sources as well."""
    choice: bool = False
    """One of the sources with this mark is enough: the first that is there is taken."""
    template: bool = False
    """It is rendered; of a directory, each file in it."""


class FromSources:
    """Is made from files that the state names. Those of the states directory belong to the states: their new content is a change of these."""

    @abstractmethod
    def draws(self) -> Iterable[Drawn]:
        """Its sources. Pure and cheap: asked whenever the states change."""

    def inline(self) -> tuple[tuple[str, str], ...]:
        """The templates that stand in its own arguments: (argument, text). Pure and cheap, too."""
        return ()


class Edgeable:
    """Takes part in automatic edges: whoever needs what another one offers waits for it, where the order of execution agrees.

    Both methods are pure and cheap: they are called for every resource whenever the states change.
    """

    def offers(self) -> tuple[tuple[str, str], ...]:
        """What is there once this is right, as others may need it. Default: what it manages."""
        return self.uids()  # type: ignore[attr-defined,no-any-return] # every kind is a Resource

    def needs(self) -> tuple[Need, ...]:
        """What must be there for this to work, where somebody manages it."""
        return ()


class Reactive:
    """An action that is due again whenever its watch tells of something, where its state says what to watch: a command that follows a file.

    A watch that fails does not end its run, and does not make it due.
    """

    reaction: ClassVar[frozenset[str]] = frozenset()
    """Fields that say what it reacts to: with other values it is the same action still."""

    @abstractmethod
    def reacts(self) -> bool:
        """Whether there is anything to watch."""


class Backed:
    """Needs a task in the background that all resources of its kind share: one connection, one stream of events."""

    @classmethod
    @abstractmethod
    def background(cls, services: Services) -> AsyncIterator[Any]:
        """The task: its first item is what resources find as `ctx.background`, and says that it is ready; later ones mean nothing.

        It starts before the first watch of its kind, lives until the last resource has left, and is cancelled then. One that raises or ends
        is started again, and so are the watches.
        """


class Sendable:
    """Sends values to other resources when it has run: a command what it printed, a user its number."""

    sends: ClassVar[Mapping[str, type]] = {}
    """Key -> type (`str`, `int`, `float`, `bool`, `list`, `dict`); `ctx.send` takes no others."""
    instead: ClassVar[Mapping[str, frozenset[str]]] = {}
    """Key -> keys that are not sent when another resource receives this one."""


class Recvable:
    """Takes values of its arguments from what others send (`recv`), all of them but its name."""


class Member(NamedTuple):
    """One of several resources that are put right together."""

    resource: Any
    ctx: Context
    work: Any
    """What is to be done about it: the difference that its look has found."""


class Groupable:
    """Several of this kind can be put right in one go, for less than one after the other: packages, in one transaction."""

    @abstractmethod
    def group(self) -> Hashable:
        """Those with an equal key fit into one batch; None: only alone."""

    @classmethod
    @abstractmethod
    async def apply_together(cls, members: Sequence[Member]) -> Sequence[Any]:
        """Put all of these right; for each what its own `apply` would have returned, in the same order.

        When it raises `Temporary`, that is what came of each; after any other error each is put right alone, so
        what was done already must do no harm then.
        """


async def together(resource: Any, ctx: Context, work: Any, alone: Callable[[], Awaitable[Any]]) -> Any:
    """Do what a look has found to be done: `alone`, or in one go with others of its group that run now."""
    if ctx.report.batch is None:
        return await alone()
    return await ctx.report.batch.join(Member(resource, ctx, work), alone)
