"""Values in git's configuration of a repository or a user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources import accounts
from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, owned_by
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Owner, Text, field, parse_list, shaped
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.git.base import FOREIGN
from holdfast.resources.kinds.git.program import ENVIRONMENT, Git
from holdfast.resources.kinds.git.trusted import target_of
from holdfast.resources.paths import own_home
from holdfast.resources.traits import Declaration, Edgeable, Reversible

Key = Annotated[
    str,
    shaped(
        r"[A-Za-z0-9-]+(\.[^\x00-\x1f\x7f]+)?\.[A-Za-z][A-Za-z0-9-]*",
        "the name of a setting of git: a name has a section and a key, such as user.email",
        1024,
    ),
]
KeyPattern = Annotated[str, shaped(r"(?!-)[^\x00-\x1f\x7f]+", "a regular expression for names of settings", 1024)]
Value = Annotated[Text, shaped(r"[^\x00]*", "a value of git without a NUL character", 1 << 16)]


@accepts(VALUE, ITEM, str, None)
def parse_values(value: object) -> object:
    """Return a list of values; split text at commas, as Salt does."""
    return tuple(value.split(",")) if isinstance(value, str) else parse_list(value)


class Setting(Edgeable, Resource):
    """Base of the kinds of settings."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    ignored: ClassVar[Mapping[str, str]] = FOREIGN

    repo: AbsPath | None = field(None)
    """The repository. Required, unless `global` is true."""
    user: Owner | None = field(None)
    """User that runs git. Default: the user of the agent, root. With `global`, the owner of the configuration."""
    of_user: bool = field(False, alias="global")
    """Use the configuration of the user (`~/.gitconfig`) instead of that of a repository."""

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.of_user == (self.repo is not None):
            raise ValueError("set either repo, the directory of a repository, or global: true")
        return self

    @property
    def where(self) -> str:
        """The configuration as messages name it."""
        return f"the configuration of {self.repo or self.user or 'root'}"

    async def git(self, ctx: Context, *words: str) -> Completed:
        """Run `git config`; status 1 means that the value does not exist. Raises `Permanent` if it fails."""
        if self.repo is None:
            env = {name: value for name, value in ENVIRONMENT.items() if name != "GIT_CONFIG_GLOBAL"}
            done = await ctx.run("git", "config", "--global", *words, env=env, user=self.user, check=False)
        else:
            place = await ctx.blocking(target_of, self.repo, self.user)
            if not place.present:
                raise Permanent(f"cannot find the repository {self.repo}: declare it, or correct the path")
            done = await Git(ctx, place.real, self.user).run("config", "--local", *words, check=False)
        if done.retcode not in {0, 1}:
            raise Permanent(f"cannot use {self.where}: {reason(done)}")
        return done

    def watch(self, ctx: Context) -> Watch:
        """Watch the file of the configuration."""
        if self.repo is not None:
            return ctx.watch_path(f"{self.repo}/.git/config", f"{self.repo}/config")
        account = accounts.account(self.user) if self.user else None
        home = account.home if account else own_home()
        return ctx.watch_path(f"{home}/.gitconfig", f"{home}/.config/git/config")

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the setting. Case matters only between the section and the key."""
        section, _, rest = self.name.partition(".")
        middle, _, key = rest.rpartition(".")
        name = ".".join([section.lower(), *([middle] if middle else []), key.lower()])
        return (("git-config", f"{self.repo or self.user or 'root'}:{name}"),)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on a setting."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the repository, the user and the package of git."""
        repo = [Dependency("path", self.repo)] if self.repo else []
        return (*repo, *owned_by(self.user, None), Dependency("pkg", "git", vital=False))


class ConfigSet(Setting, Reversible, kind="git.config_set"):
    """A setting of git has one or several values.

    user.email:
      git.config_set:
        - value: deploy@example.org
        - user: root
        - global: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)

    name: Key
    """The setting: `section.key` or `section.name.key`."""
    value: Value | None = field(None)
    """The value. It must not be secret: while git writes it, other users can see it in the list of processes."""
    multivar: Annotated[tuple[Value, ...], BeforeValidator(parse_values)] = ()
    """The values, in this order."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.value is None) == (not self.multivar):
            raise ValueError("set either value or multivar")
        return self

    def desired(self) -> State:
        """Return the values."""
        return {"values": [self.value] if self.value is not None else list(self.multivar)}

    async def probe(self, ctx: Context) -> State:
        """Return the present values."""
        found = (await self.git(ctx, "-z", "--get-all", self.name)).stdout.split("\0")[:-1]
        return {"values": found} if found else None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the values; the first value replaces all present values."""
        for number, value in enumerate((self.desired() or {})["values"]):
            done = await self.git(ctx, "--add" if number else "--replace-all", "--", self.name, value)
            if done.retcode != 0:
                raise Permanent(f"cannot set {self.name} in {self.where}: git refuses the name")

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present values, or of none."""
        found = await self.probe(ctx)
        place = {"repo": self.repo} if self.repo else {"global": True}
        rest = {**place, **({"user": self.user} if self.user else {})}
        if found is None:
            return Declaration("git.config_unset", {"name": re.escape(self.name), "all": True, **rest})
        return Declaration("git.config_set", {"name": self.name, "multivar": found["values"], **rest})

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the values before and after the change, as Salt does."""
        before, after = delta.before or {}, delta.after or {}
        return {self.name: {"old": before.get("values"), "new": after.get("values")}}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        return Effect(("set",), self.name, detail=f" in {self.where}")


class ConfigUnset(Setting, kind="git.config_unset"):
    r"""Settings of git have no value, or no value that matches an expression.

    http\..*\.sslverify:
      git.config_unset:
        - all: true
        - global: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    name: KeyPattern
    """A regular expression that matches the whole names of the settings. git has sections and keys in lower case."""
    value_regex: Value | None = field(None)
    """Remove only values that match this regular expression."""
    every: bool = field(False, alias="all")
    """Remove all values of a setting that has several; false: report an error."""

    def desired(self) -> State:
        """Return that no setting matches."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the present settings that match, with their values."""
        pattern = f"^{self.name.removeprefix('^').removesuffix('$')}$"
        values = () if self.value_regex is None else (self.value_regex,)
        done = await self.git(ctx, "-z", "--get-regexp", "--", pattern, *values)
        found: dict[str, list[str]] = {}
        for item in done.stdout.split("\0")[:-1]:
            key, _, value = item.partition("\n")
            found.setdefault(key, []).append(value)
        if not self.every and (several := [key for key, values in found.items() if len(values) > 1]):
            raise Permanent(f"cannot remove {', '.join(several)}: it has several values; set all: true to remove them")
        return found or None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the values."""
        values = () if self.value_regex is None else (self.value_regex,)
        for key in delta.before or {}:
            await self.git(ctx, "--unset-all", "--", key, *values)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the removed values, as Salt does."""
        return dict(delta.before or {})

    def effect(self, delta: Delta) -> Effect:
        """Return the settings that a repair removes."""
        return Effect(("remove",), ", ".join(delta.fields), detail=f" from {self.where}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is not set"
