"""User accounts of this host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, field_validator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Account, NewAccount, Number, Owners, Text, field, shaped
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.results import User
from holdfast.resources.interfaces.user import UserInterface
from holdfast.resources.kinds import _primary_group
from holdfast.resources.needs import Need, needed
from holdfast.resources.secrets import MASK
from holdfast.resources.traits import Declaration, Edgeable, Recvable, Reversible, Sendable

HASH = re.compile(r"[!*]{0,2}(\$[^$:\n]+\$[^:\n]+|_[./0-9A-Za-z]{19}|[./0-9A-Za-z]{13})|[!*]+|x")
AGEING = ("date", "mindays", "maxdays", "inactdays", "warndays", "expire")
LAST_DAY = 0x7FFFFFFF
"""Maximum number of days that the tools accept."""
PLAIN = ("uid", "home", "shell", "fullname", "roomnumber", "workphone", "homephone", "other")
"""Fields that are set as declared."""
LOCAL = {"local": "accounts are always those of the host's own files"}
IGNORED = {
    **LOCAL,
    "hash_password": "passwords are declared as hashes only",
    "loginclass": "BSD only",
    "persist_home": "the content of a home directory is never moved",
    "nologinit": "the databases lastlog and faillog are not managed",
    "usergroup_default": "use usergroup",
    "win_homedrive": "Windows only",
    "win_profile": "Windows only",
    "win_logonscript": "Windows only",
    "win_description": "Windows only",
}


PLAIN_TEXT = shaped(
    r"[^:,\x00-\x1f\x7f]*", "text for a field of the account file: such text is one line without ':' and ','"
)


@accepts()
def parse_group(value: object) -> object:
    """Return a group of digits as a number, and any other group unchanged."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


class UserKind(Reversible, Resource):
    """Base of the kinds of this family."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    name: Account
    """Login name."""

    async def user(self, ctx: Context) -> User | None:
        """Return the present account; None if there is none."""
        user = ctx.interface(UserInterface)
        return (await user.info([self.name]))[self.name]

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present account or its absence. Files and the home directory do not change."""
        user = await self.user(ctx)
        if user is None:
            return Declaration("user.absent", {"name": self.name})
        seen = {name: getattr(user, name) for name in PLAIN[:4] if getattr(user, name) not in (None, "")}
        password = (
            {} if user.password is None else {"password": user.password} if user.password else {"empty_password": True}
        )
        groups = sorted(name for name in user.groups if name != user.primary_group)
        arguments = {"name": self.name, "gid": user.gid, "groups": groups, **seen, **password}
        return Declaration(
            "user.present", {**arguments, "createhome": False, "allow_uid_change": True, "allow_gid_change": True}
        )

    def watch(self, ctx: Context) -> Watch:
        """Watch the account files."""
        user = ctx.interface(UserInterface)
        return user.watch()

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the user."""
        return (("user", self.name),)


class Present(Edgeable, Sendable, Recvable, UserKind, kind="user.present"):
    """An account exists with the declared fields; other fields are not changed.

    alice:
      user.present:
        - shell: /bin/bash
        - groups: [sudo]
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    ignored: ClassVar[Mapping[str, str]] = IGNORED
    sends: ClassVar[Mapping[str, type]] = {"uid": int, "gid": int, "home": str}

    name: NewAccount
    """Login name."""
    uid: Number | None = field(None)
    """Number of the user. Default: the next free one."""
    gid: Annotated[Number | Account, BeforeValidator(parse_group)] | None = field(None)
    """Primary group, by name or number.

    Default: unchanged. If the group is missing, it is added again under the user's name, unless `usergroup` is false.
    """
    usergroup: bool | None = field(None)
    """At creation, create a primary group with the user's name. Default: as the platform does."""
    groups: Owners | None = field(None)
    """Supplementary groups, which must exist; the primary group may be among them.

    The user is removed from all other groups, unless `remove_groups` is false.
    """
    optional_groups: Owners = field(())
    """Supplementary groups that the user joins if they exist."""
    remove_groups: bool = field(True)
    """Remove the user from groups that are not listed."""
    home: Annotated[AbsPath, shaped("[^:\n]*", "a home directory: the account file cannot store a ':'")] | None = field(
        None
    )
    """Home directory; the content of the old home directory is not moved."""
    createhome: bool = field(True)
    """At creation, create the home directory."""
    password: str | None = field(None, secret=True)
    """Hash of the password in the format of crypt(3) (`openssl passwd -6`)."""
    enforce_password: bool = field(True)
    """Restore the password after a change; false: set it only at creation."""
    empty_password: bool = field(False)
    """Allow login without a password."""
    password_lock: bool | None = field(None)
    """Lock the password, so that no login with it succeeds, or unlock it. Default: unchanged."""
    shell: Annotated[AbsPath, shaped("[^:\n]*", "a shell: the account file cannot store a ':'")] | None = field(None)
    """Login shell."""
    unique: bool = field(True)
    """Refuse a uid that another user has."""
    system: bool = field(False)
    """At creation, take a uid from the range of system accounts."""
    fullname: Annotated[Text, PLAIN_TEXT] | None = field(None)
    """Full name."""
    roomnumber: Annotated[Text, PLAIN_TEXT] | None = field(None)
    """Room."""
    workphone: Annotated[Text, PLAIN_TEXT] | None = field(None)
    """Telephone at work."""
    homephone: Annotated[Text, PLAIN_TEXT] | None = field(None)
    """Telephone at home."""
    other: (
        Annotated[Text, shaped(r"[^:\x00-\x1f\x7f]*", "text for the account file: such text is one line without ':'")]
        | None
    ) = field(None)
    """The rest of the comment field."""
    date: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Day of the last change of the password, in days since 1970."""
    mindays: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Days before the password may be changed."""
    maxdays: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Days after which the password must be changed."""
    inactdays: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Days after `maxdays` during which a login may still change the password."""
    warndays: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Days of warning before the password must be changed."""
    expire: int | None = field(None, unit="days", ge=-1, le=LAST_DAY)
    """Day on which the account ends, in days since 1970."""
    allow_uid_change: bool = field(False)
    """Give an existing account the declared uid."""
    allow_gid_change: bool = field(False)
    """Give an existing account the declared primary group."""

    @field_validator("password")
    @classmethod
    def _hash(cls, password: str | None) -> str | None:
        if password and not HASH.fullmatch(password):
            raise ValueError("the password must be a hash: make one with `openssl passwd -6`")
        return password

    @model_validator(mode="after")
    def _lockable(self) -> Self:
        if self.password_lock is not None and (self.empty_password or (self.password or "").startswith("!")):
            raise ValueError("password_lock requires a hash without a '!' before it, and excludes empty_password")
        return self

    def touches(self) -> tuple[Uid, ...]:
        """Return the groups, including that of the user's name if the user may need it, and the home directory."""
        own = (self.name,) if self._keeps_group else ()
        groups = tuple([("group", name) for name in (*own, *(self.groups or ()), *self.optional_groups)])
        return (*groups, *((("path", self.home),) if self.home else ()))

    def offers(self) -> tuple[Uid, ...]:
        """Return the user and, if it is created, the home directory."""
        return (*self.uids(), *((("path", self.home),) if self.home and self.createhome else ()))

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the groups and the parent of the home directory."""
        primary = [Dependency("group", self.gid)] if isinstance(self.gid, str) else []
        several = [Dependency("group", name) for name in self.groups or ()] + [
            Dependency("group", name, vital=False) for name in self.optional_groups
        ]
        return (*primary, *several, *((lies_in(self.home, vital=False),) if self.home else ()))

    def desired(self) -> State:
        """Return the declared fields, with sorted groups."""
        wanted = {name: value for name in (*PLAIN, "gid", *AGEING) if (value := getattr(self, name)) is not None}
        if self.groups is not None or self.optional_groups:
            wanted["groups"] = tuple(sorted({*(self.groups or ()), *self.optional_groups}))
        if self.empty_password:
            wanted["password"] = ""
        elif self.password is not None:
            wanted["password"] = self.password
        if self.password_lock is not None:
            wanted["password_lock"] = self.password_lock
        if self._keeps_group:
            wanted["primary_group"] = "exists"
        return wanted or {"name": self.name}

    @property
    def _keeps_group(self) -> bool:
        """Whether a missing primary group, which another program may have removed, is added again."""
        return self.gid is None and self.usergroup is not False

    async def probe(self, ctx: Context) -> State:
        """Return the fields of the present account; None if there is none."""
        user = await self.user(ctx)
        if user is None:
            return None
        seen = {**user.extra, **{name: getattr(user, name) for name in ("name", *PLAIN[:4])}}
        empty = dict.fromkeys(PLAIN, "") | dict.fromkeys(AGEING, -1)
        seen = {name: empty.get(name) if value is None else value for name, value in seen.items()}
        seen["gid"] = user.primary_group if isinstance(self.gid, str) else user.gid
        seen["primary_group"] = _primary_group.seen(user)
        seen["groups"] = self._seen_groups(user, await self._missing_groups(ctx))
        return seen | self._seen_password(user)

    def _seen_password(self, user: User) -> dict[str, Any]:
        """Return the present hash and lock, or the declared values if they cannot be read or must not be changed."""
        kept = self.password is not None and not self.enforce_password
        password = self.password if kept or user.password is None else user.password
        if self.password_lock is None:
            return {"password": password}
        locked = self.password_lock if user.locked is None else user.locked
        return {"password": (password or "").lstrip("!"), "password_lock": locked}

    def _seen_groups(self, user: User, missing: set[str]) -> tuple[str, ...]:
        """Return the present groups that are declared.

        Groups that the user may also have are left out; optional groups that do not exist count as joined.
        """
        wanted = {*(self.groups or ()), *self.optional_groups}
        seen = {*user.groups} | ({user.primary_group} & wanted)
        if not self.remove_groups or self.groups is None:
            seen &= wanted
        return tuple(sorted(name for name in seen | (missing & {*self.optional_groups}) if name))

    async def _missing_groups(self, ctx: Context) -> set[str]:
        """Return the optional groups that do not exist."""
        if not self.optional_groups:
            return set()
        found = await ctx.interface(GroupInterface).info(self.optional_groups)
        return {name for name, group in found.items() if group is None}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe and repair as usual, but change uid and gid, to which files refer, only if the state allows it."""
        if state := await self.probe(ctx):
            self._demand_allowed(state)
        right = await super().check_apply(ctx, apply)
        if (right or apply) and (user := await self.user(ctx)) and isinstance(user.uid, int):
            ctx.send(uid=user.uid, gid=user.gid or 0, home=user.home or "")
        return right

    def _demand_allowed(self, state: Mapping[str, Any]) -> None:
        """Raise `Permanent` if the uid or gid of the present account would change but the state does not allow it."""
        for name, allowed in (("uid", self.allow_uid_change), ("gid", self.allow_gid_change)):
            wanted = getattr(self, name)
            if wanted is not None and state[name] != wanted and not allowed:
                raise Permanent(
                    f"cannot change the {name} of {self.name} from {state[name]} to {wanted}: "
                    f"set allow_{name}_change: true"
                )

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query, watch and repair accounts."""
        wanted = self.desired() or {}
        password = ("set_password",) if "password" in wanted else ()
        lock = ("set_lock",) if self.password_lock is not None else ()
        ageing = ("set_expiry",) if any(name in wanted for name in AGEING) else ()
        query = ("info",) if self.optional_groups or self._keeps_group or isinstance(self.gid, int) else ()
        groups = needed(GroupInterface, *query, *(("add",) if self._keeps_group else ()))
        return needed(UserInterface, "info", "watch", "add", "modify", *password, *lock, *ageing) + groups

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Create the account, or change what differs."""
        user = ctx.interface(UserInterface)
        after = delta.after or {}
        fields = {name: after[name] for name in delta.fields if name in (*PLAIN, "gid", "groups") and name in after}
        if "groups" in fields:
            fields["groups"] = await self._groups(ctx, fields["groups"])
        if delta.create:
            make = partial(
                user.add, self.name, system=self.system, createhome=self.createhome, usergroup=self.usergroup
            )
            await make(unique=self.unique, **fields)
        elif "primary_group" in delta.fields and (present := await self.user(ctx)):
            await _primary_group.restore(ctx, present)
        if fields and not delta.create:
            await user.modify(self.name, unique=self.unique, **fields)
        await self._apply_password(user, delta)
        if ages := {name: after[name] for name in AGEING if name in delta.fields and name in after}:
            await user.set_expiry(self.name, ages)

    async def _apply_password(self, user: UserInterface, delta: Delta) -> None:
        """Set or lock the password if it differs."""
        after = delta.after or {}
        if "password" in delta.fields and "password" in after:
            await user.set_password(self.name, f"{'!' if self.password_lock else ''}{after['password']}")
        elif self.password_lock is not None and "password_lock" in delta.fields:
            await user.set_lock(self.name, self.password_lock)

    async def _groups(self, ctx: Context, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Return the supplementary groups to set: the wanted groups without the primary group, and groups to keep."""
        user = await self.user(ctx)
        keep = user.groups if user and (not self.remove_groups or self.groups is None) else ()
        primary = await _primary_group.among(ctx, wanted, self.gid, user)
        return tuple(sorted({*wanted, *keep} - primary - await self._missing_groups(ctx)))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new values, as Salt does."""
        after = delta.after or {}
        new = {name: MASK if name == "password" else after[name] for name in delta.fields if name in after}
        if delta.create:
            new.pop("primary_group", None)
        return {"name": self.name, **new} if delta.create else new

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"user {self.name} is as declared"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the user."""
        return super().effect(delta)._replace(what=f"user {self.name}")


class Absent(UserKind, kind="user.absent"):
    """An account does not exist.

    guest:
      user.absent:
        - purge: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    ignored: ClassVar[Mapping[str, str]] = LOCAL

    purge: bool = field(False)
    """Remove the home directory and the mail, too."""
    force: bool = field(False)
    """Remove the account even while the user is logged in."""

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the name if the account exists."""
        return {"name": self.name} if await self.user(ctx) else None

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query, watch and remove accounts."""
        return needed(UserInterface, "info", "watch", "remove")

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the account."""
        user = ctx.interface(UserInterface)
        await user.remove(self.name, self.purge, self.force)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return `{name: removed}`, as Salt does."""
        return {self.name: "removed"}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"there is no user {self.name}"

    def effect(self, delta: Delta) -> Effect:
        """Return that a repair removes the user."""
        return Effect(("remove",), f"user {self.name}")
