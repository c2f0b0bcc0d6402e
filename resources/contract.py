"""The resource contract: one class says what a kind of thing is, how to probe, repair and watch it.

A kind is declared by one class statement, which also registers it:

    class Hostname(Resource, kind="hostname.present"):
        name: str = field(pattern=r"[a-z0-9-]{1,63}")
        async def probe(self, ctx): ...
        async def apply(self, ctx, delta): ...
        def watch(self, ctx): ...

MUST override: `probe` and `apply`, or `check_apply` as a whole. SHOULD override: `watch`, `uids`. MAY override: the
rest. The mix-ins of `traits.py` are optional powers (a refresh action, ...). Nothing here depends on the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict

from holdfast.resources.assignment import announced
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.context import Context, Watch
from holdfast.resources.delta import Delta, State, compare, progress
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import RAISED, DeclarationError, StillDiffers
from holdfast.resources.fields import secret_fields
from holdfast.resources.needs import Need
from holdfast.resources.secrets import MASK, NAME
from holdfast.resources.traits import together
from holdfast.resources.watches import idle

Concern = Literal["security", "operation", "content", "other"]
"""What a difference concerns: access rights, what runs, the content of files, or none of these."""
CONCERNS: tuple[Concern, ...] = get_args(Concern)
"""All concerns, the most serious first."""
Uid = tuple[str, str]
"""Type and value that identify what a resource manages: `("path", "/etc/motd")`, `("unit", "nginx.service")`."""

SHORT = 80
"""Number of characters up to which a message has the values of a property."""


class Resource(BaseModel):
    """One typed, validated, immutable declaration of one thing on the machine.

    The fields are the arguments that a state file may give; unknown arguments are refused. Validators are pure: they
    never look at the machine.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, hide_input_in_errors=True
    )

    kind: ClassVar[str] = ""
    """`family.function`, as written in state files."""
    ignored: ClassVar[Mapping[str, str]] = {}
    """Arguments of Salt that this kind accepts without effect -> the reason."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Arguments of Salt that this kind refuses since ignoring them would do harm -> the reason and the alternative."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Former names of arguments, which the kind still accepts -> the present names."""
    variables_with: ClassVar[str] = ""
    """Argument with which the kind accepts arguments of any other name, as variables of its template."""
    exclusive: ClassVar[bool] = True
    """Whether the compiler refuses declarations with an equal uid that contradict each other."""
    partial: ClassVar[bool] = False
    """Whether a declaration covers a part of its thing only: several may, if they agree with one that covers all."""
    spreads: ClassVar[bool] = False
    """Whether the kind also declares what lies below its path; the compiler then asks `contradicts` about that, too."""
    concerns: ClassVar[Mapping[str, Concern]] = {"": "other"}
    """What a difference concerns, for reports: key of `changes` (such as `mode`) -> concern; `""` is for other keys."""
    public_results: ClassVar[bool] = False
    """Whether every user of this host could read what a successful run reports, so that viewers may see it."""
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change", "remove")
    """All verbs of the effects that a run of the kind may report."""
    deprecated: ClassVar[Mapping[str, str]] = {}
    """Arguments that should no longer be used -> what to use instead; `""` is for the kind itself."""
    polled: ClassVar[float] = 0
    """Seconds between two checks of a kind whose watch reports no events; 0 for a kind whose watch reports events."""
    later: ClassVar[frozenset[str]] = frozenset()
    """Fields that were added to an action after its first version.

    An action whose added fields have their default values is the same action as before, and does not run again.
    """

    name: str
    """What the resource manages; the ID of the state if the state gives no name."""

    def __init_subclass__(cls, *, kind: str = "", **options: Any) -> None:
        """Accept the option `kind`; pydantic takes the other options."""
        super().__init_subclass__(**options)
        cls.kind = kind

    @classmethod
    def __pydantic_init_subclass__(cls, *, kind: str = "", **_: Any) -> None:
        """Register the kind. Raises `DeclarationError` if the name is malformed or taken."""
        if not kind:
            return
        if cls.check_apply is Resource.check_apply and (cls.probe is Resource.probe or cls.apply is Resource.apply):
            raise DeclarationError(f"cannot declare {kind}: it overrides neither probe and apply nor check_apply")
        _register(kind, cls)
        share_names(cls)

    @classmethod
    def deprecations(cls, arguments: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the keys and positions that lead to each deprecated value that is given, with what to use instead."""
        yield from (((name,), better) for name, better in cls.deprecated.items() if name in arguments)

    # -- what a kind says about itself -------------------------------------------------------------------------

    def desired(self) -> State:
        """Return the desired state; None means absent.

        By default: each declared argument that is not None, except the name.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields if name != "name"}
        return {name: value for name, value in values.items() if value is not None}

    async def probe(self, ctx: Context) -> State:
        """Return the present state of the thing, or None if it is absent. Changes nothing."""
        raise NotImplementedError

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Repair exactly the fields that `delta` names. Raises `Permanent`, `Temporary` or `OSError` on failure.

        The kinds of Holdfast itself raise no `OSError`: their messages say what could not be done.
        """
        raise NotImplementedError

    def watch(self, ctx: Context) -> Watch:
        """Yield None once the watch is armed, and again each time the thing may have changed.

        The default watch never reports an event: it is for things that cannot drift or cannot be watched.
        """
        return idle()

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of this resource, by which other resources refer to it."""
        return ()

    def needs(self) -> tuple[Need, ...]:
        """Return the functions of interfaces that this declaration uses.

        A state that needs a function which its provider on this host lacks is refused before anything runs.
        """
        return ()

    def touches(self) -> tuple[Uid, ...]:
        """Return the uids of other things that a repair changes: the file that holds the value, the groups of a user.

        The engine calls this after it has changed the resource, to find states that undo each other.
        """
        return ()

    def action(self) -> bool:
        """Return whether the kind cannot tell if it needs to run, as a command cannot.

        Such an action runs only when something triggers it.
        """
        return False

    def explain(self, ctx: Context) -> str:
        """Return one sentence that says why no change was needed."""
        return f"{self.name} is as declared"

    async def demand_possible(self, ctx: Context, delta: Delta) -> None:
        """Raise the error that `apply` would raise, as far as it is known without a change: for a plan.

        Do not raise for what an earlier state may make, such as a missing package.
        """

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair of this difference does."""
        if delta.create or delta.remove:
            return Effect(("create" if delta.create else "remove",), self.name)
        return Effect(("change",), self.name, ", ".join(delta.fields))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return Salt's `changes` for this delta, with secrets masked."""
        changes, hidden = delta.changes(), set(secret_fields(type(self)))
        return {name: {"old": MASK, "new": MASK} if name in hidden else change for name, change in changes.items()}

    def _left(self, left: Delta) -> str:
        """Return what still differs after a repair, and possible causes; values only where `changes` shows them."""
        if left.create or left.remove:
            return f"{self.name} {'does not exist' if left.create else 'is still there'}"
        changes = self.changes(left)
        said = [_differs(name, {} if NAME.search(name) else changes.get(name)) for name in left.fields] or [self.name]
        return f"{', '.join(said)}; perhaps another program sets it, or the system accepts only another value"

    # -- what the engine calls ---------------------------------------------------------------------------------

    def _before(self, delta: Delta) -> dict[str, Any]:
        """Return the present values of the fields that differ, with secrets masked; none if the thing is absent."""
        hidden, known = set(secret_fields(type(self))), delta.before or {}
        return {
            name: MASK if name in hidden or NAME.search(name) else known[name] for name in delta.fields if name in known
        }

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe the thing and, with `apply`, repair it.

        Returns True if the thing was as declared, else False. With `apply`, it is as declared after the call, or an
        exception is raised; without `apply`, nothing is changed. The method reports in `ctx.report` the changes that it
        has made or would make.
        """
        delta = await self._difference(ctx)
        if delta is None:
            ctx.report.comment = ctx.report.comment or self.explain(ctx)
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.begin(lambda: self.account(ctx, delta))
            await together(self, ctx, delta, lambda: self.apply(ctx, delta))
            left = await self._difference(ctx)
            if left is not None:
                raise StillDiffers(f"still differs after the repair: {self._left(left)}")
        else:
            await self.demand_possible(ctx, delta)
        ctx.report.changes = ctx.report.changes or self.changes(delta)
        ctx.report.before = self._before(delta)
        if ctx.report.effect is None:
            own = ctx.report.comment
            ctx.report.did(self.effect(delta), applied=apply)
            ctx.report.comment = own or ctx.report.comment
        return False

    async def account(self, ctx: Context, delta: Delta) -> None:
        """After an error, report the changes since the probe that found `delta`."""
        changed = progress(delta, await self._probed(ctx))
        if changed is not None:
            ctx.report.changes = self.changes(changed)
            ctx.report.did(self.effect(changed), applied=True)

    async def _difference(self, ctx: Context) -> Delta | None:
        """Return the difference between the present and the declared state."""
        return compare(await self._probed(ctx), self.desired())

    async def _probed(self, ctx: Context) -> State:
        """Call `probe`; a `FileNotFoundError` means that the thing is absent."""
        try:
            return await self.probe(ctx)
        except FileNotFoundError:
            return None

    def cmp(self, other: Resource) -> str | None:
        """Return None if the other resource is interchangeable with this one, else the first reason why it is not."""
        if type(self) is not type(other):
            return f"kind {self.kind} is not {other.kind}"
        if self is other or self.__dict__ == other.__dict__:
            return None
        for name, info in type(self).model_fields.items():
            if getattr(self, name) != getattr(other, name):
                return f"{info.alias or name} differs"
        return None

    def contradicts(self, other: Resource) -> str | None:
        """Return why this declaration and another with an equal uid cannot both hold; None if they can.

        Two states of one kind contradict each other if both give a field and the values differ. A field that only one
        of them gives is not a contradiction.
        """
        if type(self) is not type(other):
            return self.cmp(other)
        both = (self.model_fields_set & other.model_fields_set) - {"name"}
        fields = ((name, info.alias or name) for name, info in type(self).model_fields.items() if name in both)
        return next((f"{argument} differs" for name, argument in fields if self.differs(other, name)), None)

    def concern(self, changes: Mapping[str, Any]) -> Concern:
        """Return the most serious concern of these changes."""
        parts = {*changes, *(part for change in changes.values() if isinstance(change, Mapping) for part in change)}
        found = {self.concerns[part] for part in parts if part in self.concerns} | {self.concerns[""]}
        return next(each for each in CONCERNS if each in found)

    def differs(self, other: Resource, name: str) -> bool:
        """Return whether both resources give a field, with different values."""
        mine, theirs = getattr(self, name), getattr(other, name)
        return mine is not None and theirs is not None and bool(mine != theirs)

    @classmethod
    def declare(cls, name: str, **arguments: Any) -> Self:
        """Build a resource from Python. Raises pydantic's `ValidationError` with all mistakes at once."""
        return cls.model_validate({"name": name, **arguments})


DECLARED: dict[str, type[Resource]] = {}
"""The kinds that have been declared, by name. Built-in kinds are declared when `registry.find` loads their modules."""


def _register(kind: str, cls: type[Resource]) -> None:
    """Add a kind. Raises `DeclarationError` if the name is malformed or belongs to another class."""
    family, dot, function = kind.partition(".")
    if not dot or not all(word.isidentifier() for word in (*family.split("-"), function)):
        raise DeclarationError(f"cannot declare {kind!r}: a kind is named 'family.function'")
    known = DECLARED.get(kind)
    home = (KIND_MODULES.get(kind) if known is None else known.__module__) or cls.__module__
    if home != cls.__module__ or (known is not None and known.__qualname__ != cls.__qualname__):
        raise DeclarationError(f"cannot declare {kind} in {cls.__module__}: {home} has declared it already")
    DECLARED[kind] = cls


SHARED = 29
"""Greatest number of fields for which instances of a class share the names of their attributes in CPython.

CPython reserves 30 names for a class; the instance that `share_names` makes takes one of them.
"""
_given: dict[frozenset[str], set[str]] = {}
"""All sets of given fields, so that equal sets are one object."""


def share_names(cls: type[BaseModel]) -> None:
    """Reserve the names of the fields for all instances of a class, as CPython shares them (PEP 412).

    Call this when the class is made: each earlier instance takes one of the 30 names that CPython reserves. If a field
    finds no name left, no instance shares any, and each takes more memory than one that pydantic makes.
    """
    if len(cls.model_fields) <= SHARED:
        first = object.__new__(cls)
        for name in cls.model_fields:
            object.__setattr__(first, name, None)


def compact(model: BaseModel) -> None:
    """Let a frozen model share the names of its fields, and its set of given fields, with others of its class.

    pydantic replaces the dict of an instance as a whole, so each instance has its own names: two thirds of its memory.
    Instances share the names only of attributes that are set one by one (PEP 412).
    """
    values, given = model.__dict__, model.model_fields_set
    if len(values) <= SHARED:
        object.__delattr__(model, "__dict__")
        for name, value in values.items():
            object.__setattr__(model, name, value)
    object.__setattr__(model, "__pydantic_fields_set__", _given.setdefault(frozenset(given), given))


def acts(resource: object) -> bool:
    """Return whether a resource is an action.

    If the kind raises an exception, the resource does not count as an action; the run reports the error.
    """
    try:
        return isinstance(resource, Resource) and resource.action()
    except RAISED:  # the code of a kind may raise anything
        return False


def _differs(name: str, change: object) -> str:
    """Return the name of a property, with both values if they are short."""
    if isinstance(change, dict) and change.keys() == {"old", "new"} and MASK not in change.values():
        shown = f"{name} is {change['old']!r}, not {change['new']!r}"
        return shown if len(shown) <= SHORT else name
    return name
