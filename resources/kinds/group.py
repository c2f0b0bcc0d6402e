"""Groups of users of this host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import model_validator

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.fields import Account, NewAccount, Number, Owners, field
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.results import Group
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import Edgeable, Recvable, Sendable


class GroupKind(Resource):
    """Base of the kinds of this family."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    public_results: ClassVar[bool] = True
    ignored: ClassVar[Mapping[str, str]] = {"local": "groups are always those of the host's own files"}

    name: Account
    """Name of the group."""

    async def group(self, ctx: Context) -> Group | None:
        """Return the present group; None if there is none."""
        group = ctx.interface(GroupInterface)
        return (await group.info([self.name]))[self.name]

    def watch(self, ctx: Context) -> Watch:
        """Watch the account files."""
        group = ctx.interface(GroupInterface)
        return group.watch()

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the group."""
        return (("group", self.name),)


class Present(Edgeable, Sendable, Recvable, GroupKind, kind="group.present"):
    """A group exists with the declared number and members.

    deploy:
      group.present:
        - system: true
        - addusers: [alice, bob]
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    sends: ClassVar[Mapping[str, type]] = {"gid": int}

    name: NewAccount
    """Name of the group."""
    gid: Number | None = field(None)
    """Number of the group. Default: the next free one."""
    system: bool = field(False)
    """At creation, take a number from the range of system groups."""
    members: Owners | None = field(None)
    """Exactly these users are members."""
    addusers: Owners = field(())
    """These users are members; other members stay."""
    delusers: Owners = field(())
    """These users are not members."""
    non_unique: bool = field(False)
    """Accept a number that another group has."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.members is not None and (self.addusers or self.delusers):
            raise ValueError("members lists all members, so addusers and delusers cannot be set, too")
        if both := sorted({*self.addusers} & {*self.delusers}):
            raise ValueError(f"{', '.join(both)} cannot be in both addusers and delusers")
        return self

    def touches(self) -> tuple[Uid, ...]:
        """Return the users whose membership is declared."""
        return tuple([("user", name) for name in (*(self.members or ()), *self.addusers, *self.delusers)])

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the members."""
        return tuple([Dependency("user", name) for name in (*(self.members or ()), *self.addusers)])

    def desired(self) -> State:
        """Return the declared number and members."""
        wanted: dict[str, Any] = {} if self.gid is None else {"gid": self.gid}
        if self.members is not None:
            wanted["members"] = tuple(sorted(set(self.members)))
        wanted |= {"addusers": tuple(sorted(set(self.addusers)))} if self.addusers else {}
        wanted |= {"delusers": tuple(sorted(set(self.delusers)))} if self.delusers else {}
        return wanted or {"name": self.name}

    async def probe(self, ctx: Context) -> State:
        """Return the present group, with those of `addusers` that are members and those of `delusers` that are not."""
        group = await self.group(ctx)
        if group is None:
            return None
        inside = {*group.members}
        return {
            "name": self.name,
            "gid": group.gid,
            "members": group.members,
            "addusers": tuple(sorted({*self.addusers} & inside)),
            "delusers": tuple(sorted({*self.delusers} - inside)),
        }

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query, watch and repair groups."""
        number = () if self.gid is None else ("modify",)
        members = () if self.members is None else ("members_set",)
        some = (*(["members_add"] if self.addusers else []), *(["members_remove"] if self.delusers else []))
        return needed(GroupInterface, "info", "watch", "add", *number, *members, *some)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Create the group, or change what differs."""
        group = ctx.interface(GroupInterface)
        if delta.create:
            await group.add(self.name, self.gid, self.system, unique=not self.non_unique)
        elif "gid" in delta.fields and self.gid is not None:
            await group.modify(self.name, self.gid, unique=not self.non_unique)
        if self.members is not None and "members" in delta.fields:
            await group.members_set(self.name, self.members)
        if "addusers" in delta.fields:
            await group.members_add(self.name, self.addusers)
        if "delusers" in delta.fields:
            await group.members_remove(self.name, self.delusers)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new values, as Salt does."""
        after = delta.after or {}
        new = {name: after[name] for name in delta.fields if name in after}
        return {"name": self.name, **new} if delta.create else new

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe and repair as usual, then send the number of the group."""
        right = await super().check_apply(ctx, apply)
        if (right or apply) and (group := await self.group(ctx)):
            ctx.send(gid=group.gid)
        return right

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"group {self.name} is as declared"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the group."""
        return super().effect(delta)._replace(what=f"group {self.name}")


class Absent(GroupKind, kind="group.absent"):
    """A group does not exist.

    games:
      group.absent
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the name if the group exists."""
        return {"name": self.name} if await self.group(ctx) else None

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query, watch and remove groups."""
        return needed(GroupInterface, "info", "watch", "remove")

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the group."""
        group = ctx.interface(GroupInterface)
        await group.remove(self.name)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return `{name: removed}`, as Salt does."""
        return {self.name: "removed"}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"there is no group {self.name}"

    def effect(self, delta: Delta) -> Effect:
        """Return that a repair removes the group."""
        return Effect(("remove",), f"group {self.name}")
