"""The resource contract: one class says what a kind of thing is, how to look at it, put it right and watch it.

A kind is declared once, by a class statement; that is also its registration:

    class Hostname(Resource, kind="hostname.present"):
        name: str = field(pattern=r"[a-z0-9-]{1,63}")
        async def probe(self, ctx): ...
        async def apply(self, ctx, delta): ...
        def watch(self, ctx): ...

MUST override: `probe` and `apply`, or `check_apply` as a whole. SHOULD override: `watch`, `uids`. MAY override: the rest.
Optional powers (a refresh action, ...) are the mix-ins of `traits.py`. The engine is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict

from holdfast.resources import registry
from holdfast.resources.context import Context, Watch, announced
from holdfast.resources.delta import Delta, State, compare, progress
from holdfast.resources.errors import DeclarationError, Permanent
from holdfast.resources.fields import secret_fields
from holdfast.resources.secrets import MASK
from holdfast.resources.traits import together
from holdfast.resources.watches import idle

Concern = Literal["security", "operation", "content", "other"]
"""What a difference is about: who may do what, what runs, what files hold, or none of these."""
CONCERNS: tuple[Concern, ...] = get_args(Concern)
"""The most serious first."""
Uid = tuple[str, str]
"""What a resource is, for others to refer to: `("path", "/etc/motd")`, `("unit", "nginx.service")`."""


class Resource(BaseModel):
    """One typed, validated, immutable declaration of one thing on the machine.

    Fields are the arguments a state file may give; unknown ones are refused. Validators are pure: they never look at
    the outside world.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, hide_input_in_errors=True)

    kind: ClassVar[str] = ""
    """`family.function`, as written in state files."""
    ignored: ClassVar[Mapping[str, str]] = {}
    """Arguments that Salt has and this kind accepts without effect -> why."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Arguments that Salt has and that would be missed if they had no effect -> why there are none, and what to do instead."""
    exclusive: ClassVar[bool] = True
    """Declarations with an equal uid must not contradict each other: an error when states are compiled."""
    partial: ClassVar[bool] = False
    """Declares a part of what it is about: several may do that, as long as they go with who declares the whole."""
    spreads: ClassVar[bool] = False
    """Says something of all that is below its path, too: `contradicts` is asked about that as well."""
    concerns: ClassVar[Mapping[str, Concern]] = {"": "other"}
    """What it concerns that this differs, for reports: by the part of `changes` (`mode`) where that matters; `""` is for all else."""
    later: ClassVar[frozenset[str]] = frozenset()
    """Fields of an action that were added after its first version: at their defaults they do not make it another one, to be done again."""

    name: str
    """What the resource manages; the ID of the state where it gives no name."""

    def __init_subclass__(cls, *, kind: str = "", **options: Any) -> None:
        """Take the kind's name; pydantic takes the other options."""
        super().__init_subclass__(**options)
        cls.kind = kind

    @classmethod
    def __pydantic_init_subclass__(cls, *, kind: str = "", **_: Any) -> None:
        """Register the kind. Raises `DeclarationError` for a bad name or one that is taken."""
        if not kind:
            return
        if cls.check_apply is Resource.check_apply and (cls.probe is Resource.probe or cls.apply is Resource.apply):
            raise DeclarationError(f"cannot declare {kind}: it overrides neither probe and apply nor check_apply")
        registry.register(kind, cls)
        share_names(cls)

    # -- what a kind says about itself -------------------------------------------------------------------------

    def desired(self) -> State:
        """What should be: by default every declared argument that is not None, but for the name. None: absent."""
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        return {name: value for name, value in values.items() if value is not None}

    async def probe(self, ctx: Context) -> State:
        """Look at the machine; None when the thing is absent. Changes nothing."""
        raise NotImplementedError

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Put right exactly what `delta` names. Raises `Permanent`, `Temporary` or `OSError` when it cannot."""
        raise NotImplementedError

    def watch(self, ctx: Context) -> Watch:
        """Say when the thing may have changed: the first item once the watch is armed, one more for each event.

        The default never tells anything: for things that cannot drift or cannot be watched.
        """
        return idle()

    def uids(self) -> tuple[Uid, ...]:
        """What this resource is, as others may refer to it."""
        return ()

    def touches(self) -> tuple[Uid, ...]:
        """What else is changed when this is put right, a part of which others may manage: the file that holds it, the groups of a user.

        Asked when this was changed, for who undoes whom.
        """
        return ()

    def action(self) -> bool:
        """Whether this call cannot tell if it is needed, and so runs only when it is told to (design/engine, Actions)."""
        return False

    def explain(self, ctx: Context) -> str:
        """One sentence why nothing had to be done."""
        return f"{self.name} is as declared"

    def describe(self, delta: Delta, applied: bool) -> str:
        """One sentence for what was changed, or would be."""
        verb = "created" if delta.create else "removed" if delta.remove else "changed " + ", ".join(delta.fields) + " of"
        return f"{verb} {self.name}" if applied else f"would have {verb} {self.name}"

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Salt's `changes` for this delta, secrets masked."""
        changes, hidden = delta.changes(), set(secret_fields(type(self)))
        return {name: {"old": MASK, "new": MASK} if name in hidden else change for name, change in changes.items()}

    # -- what the engine calls ---------------------------------------------------------------------------------

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Look, and with `apply` put right.

        Returns True when all was right already, False when it was not; with `apply` it is right now. Without `apply` nothing
        is ever changed. Converges in one call or raises. What was or would be changed is told through `ctx.report`.
        """
        delta = await self._difference(ctx)
        if delta is None:
            ctx.report.comment = ctx.report.comment or self.explain(ctx)
            return True
        if apply:
            await ctx.report.announce()
            ctx.report.begin(lambda: self.account(ctx, delta))
            await together(self, ctx, delta, lambda: self.apply(ctx, delta))
            left = await self._difference(ctx)
            if left is not None:
                raise Permanent(f"still differs after it was put right: {', '.join(left.fields) or self.name}")
        ctx.report.changes = ctx.report.changes or self.changes(delta)
        ctx.report.comment = ctx.report.comment or self.describe(delta, apply)
        return False

    async def account(self, ctx: Context, delta: Delta) -> None:
        """After an error: tell what has changed since the look that found `delta`."""
        changed = progress(delta, await self._probed(ctx))
        if changed is not None:
            ctx.report.changes, ctx.report.comment = self.changes(changed), self.describe(changed, applied=True)

    async def _difference(self, ctx: Context) -> Delta | None:
        """What is not as declared."""
        return compare(await self._probed(ctx), self.desired())

    async def _probed(self, ctx: Context) -> State:
        """What a probe finds; a file that it did not find means that the thing is absent."""
        try:
            return await self.probe(ctx)
        except FileNotFoundError:
            return None

    def cmp(self, other: Resource) -> str | None:
        """None when the other is interchangeable with this one, else the first reason why not."""
        if type(self) is not type(other):
            return f"kind {self.kind} is not {other.kind}"
        if self is other or self.__dict__ == other.__dict__:
            return None
        for name in type(self).model_fields:
            if getattr(self, name) != getattr(other, name):
                return f"{name} differs"
        return None

    def contradicts(self, other: Resource) -> str | None:
        """Why this and another declaration of the same thing (an equal uid) cannot both hold; None when they can.

        Two states of one kind contradict each other in what both of them say; what only one says, both can have.
        """
        if type(self) is not type(other):
            return self.cmp(other)
        both = (self.model_fields_set & other.model_fields_set) - {"name"}
        return next((f"{name} differs" for name in type(self).model_fields if name in both and self.differs(other, name)), None)

    def concern(self, changes: Mapping[str, Any]) -> Concern:
        """What these changes concern: the most serious part of them counts."""
        parts = {*changes, *(part for change in changes.values() if isinstance(change, Mapping) for part in change)}
        found = {self.concerns[part] for part in parts if part in self.concerns} | {self.concerns[""]}
        return next(each for each in CONCERNS if each in found)

    def differs(self, other: Resource, name: str) -> bool:
        """Whether both say something of a field, and not the same."""
        mine, theirs = getattr(self, name), getattr(other, name)
        return mine is not None and theirs is not None and bool(mine != theirs)

    @classmethod
    def declare(cls, name: str, **arguments: Any) -> Self:
        """Make one from Python. Raises pydantic's `ValidationError` with all mistakes at once."""
        return cls.model_validate({"name": name, **arguments})


SHARED = 29
"""Fields up to which CPython lets instances share the names of their attributes: 30, less one for the instance that `share_names` makes."""
_given: dict[frozenset[str], set[str]] = {}
"""Every set of given fields that there is, so that equal ones are one object."""


def share_names(cls: type[BaseModel]) -> None:
    """Have CPython reserve the names of the fields for all instances of a class.

    Each instance that is made before takes one of the thirty places. A class that has lost a place that it needs shares nothing for ever, and its
    instances take more memory than those that pydantic makes. So this is called when the class is made.
    """
    if len(cls.model_fields) <= SHARED:
        first = object.__new__(cls)
        for name in cls.model_fields:
            object.__setattr__(first, name, None)


def compact(model: BaseModel) -> None:
    """Have a frozen model share with others of its class what needs not be its own: the names of its fields, and the set of those that were given.

    pydantic fills the dict of an instance as a whole, and so each has names of its own: two thirds of what it takes. Only attributes that are set
    one by one share theirs (PEP 412).
    """
    values, given = model.__dict__, model.model_fields_set
    if len(values) <= SHARED:
        object.__delattr__(model, "__dict__")
        for name, value in values.items():
            object.__setattr__(model, name, value)
    object.__setattr__(model, "__pydantic_fields_set__", _given.setdefault(frozenset(given), given))


def acts(resource: object) -> bool:
    """Whether it is an action. One whose kind raises when it is asked is none here: it fails when it runs."""
    try:
        return isinstance(resource, Resource) and resource.action()
    except Exception:  # noqa: BLE001 - the code of a kind may raise anything
        return False
