"""Base of the kinds of the family `pkgrepo`: the repository that a state names, and how it changes."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Final, StillDiffers
from holdfast.resources.fields import Line, Text, parse_list, parse_text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.kinds import _pkgrepo_apt as apt
from holdfast.resources.traits import Edgeable

UBUNTU = ("Ubuntu", "Mint", "Linuxmint", "Pop", "neon", "KDE neon", "elementary OS")
PPA = "deb https://ppa.launchpadcontent.net/{ppa}/ubuntu {codename} main"
LOCK = "the repositories of packages"
"""Name of the lock: changes of other states move the positions by which entries are identified."""
SECRET = re.compile(r"(://)[^/@\s]+@")
"""Matches user and password in a URL."""


@accepts(VALUE, str, None, numbers=True)
def parse_words(value: object) -> object:
    """Return a list of words, from a list or from text with commas."""
    if isinstance(value, str):
        return tuple(word for word in re.split(r"[\s,]+", value) if word)
    return tuple(parse_text(item) for item in value) if isinstance(value, (list, tuple)) else parse_list(value)


Words = Annotated[
    tuple[Annotated[Text, shaped(r"[A-Za-z0-9][\w.+~/:-]*", "a word of letters, digits and _.+~/:-")], ...],
    BeforeValidator(parse_words),
]
"""A list of words."""


class RepoChange(NamedTuple):
    """One change of a repository, with the arguments of the provider."""

    repo: Repo
    options: Mapping[str, Any]


class Repository(Edgeable, Resource):
    """Base of the kinds of this family: the name, and its meaning on each family of systems.

    inotify reports changes of the files of the repositories and of their keys.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")

    name: Line
    """On apt, the whole entry, `deb [arch=amd64] https://deb.example.org stable main`; elsewhere the repository id."""
    ppa: Annotated[Line, shaped(r"[a-z0-9][a-z0-9.+-]*/[a-zA-Z0-9][\w.+-]*", "a PPA: OWNER/NAME")] | None = None
    """A personal package archive instead of the entry, on Ubuntu: `OWNER/NAME`."""

    @model_validator(mode="after")
    def _is_entry(self) -> Self:
        if re.match(r"deb(-src)?\s", self.name) and self.ppa is None and self._named() is None:
            raise ValueError(
                f"{self.name!r} is not an entry of apt; an entry is, for example, "
                "'deb [arch=amd64] https://deb.example.org stable main'"
            )
        return self

    def _named(self) -> apt.DeclaredAptRepo | None:
        """Parse the name as an entry of apt; None if it is not one."""
        return apt.entry_of(self.name)

    def entry(self, ctx: Context) -> apt.DeclaredAptRepo:
        """Return the entry of apt. Raises `Final` if the state does not name one."""
        if self.ppa is not None:
            if ctx.facts.get("os") not in UBUNTU:
                raise Final(f"cannot use the PPA {self.ppa}: only Ubuntu has personal package archives")
            found = apt.entry_of(PPA.format(ppa=self.ppa, codename=ctx.facts.get("oscodename", "")))
        else:
            found = self._named()
        if found is None:
            raise Final(
                f"cannot manage the repository {self.name}: the name must be a whole entry on apt, for example "
                "'deb https://deb.example.org stable main'"
            )
        return found

    def watch(self, ctx: Context) -> Watch:
        """Watch the files of the repositories and of their keys."""
        paths = dict.fromkeys((*ctx.interface(PkgInterface).repo_files(), *self._paths(ctx)))
        return ctx.watch_path(*paths, recursive=True)

    def _paths(self, ctx: Context) -> list[str]:
        """Return further paths to watch."""
        return []

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids: for an entry of apt, one for each component."""
        named = None if self.ppa else self._named()
        if named is None:
            return (("pkgrepo", self.ppa or self.name),)
        return tuple([("pkgrepo", key) for key in named.keys])

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Compare and, with `apply`, change the repository completely or not at all."""
        pkg = ctx.interface(PkgInterface)
        changes = await self.change(ctx, pkg, apply=apply, test=True)
        if not changes:
            ctx.report.comment = self.explain(ctx)
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.begin(lambda: self._account(ctx, pkg, changes))
            ctx.assignment.expect_long_call()
            async with file_lock(LOCK):
                await self.change(ctx, pkg, apply=True, test=False)
            if left := await self.change(ctx, pkg, apply=True, test=True):
                shown = f"the repository {hidden(self.ppa or self.name)} still differs after the repair"
                raise StillDiffers(f"{shown}: {', '.join(left)}; perhaps another program changes its files, too")
        self._tell(ctx, changes, applied=apply)
        return False

    async def _account(self, ctx: Context, pkg: PkgInterface, changes: Mapping[str, Any]) -> None:
        """After an error, report those of the necessary changes that were made."""
        left = await self.change(ctx, pkg, apply=False, test=True)
        if done := {name: change for name, change in changes.items() if name not in left}:
            self._tell(ctx, done, applied=True)

    @abstractmethod
    async def change(self, ctx: Context, pkg: PkgInterface, *, apply: bool, test: bool) -> Mapping[str, Any]:
        """Make the change or, with `test`, return the change that it would make, as in a `ChangeSet`."""

    def _tell(self, ctx: Context, changes: Mapping[str, Mapping[str, Any]], *, applied: bool) -> None:
        """Report the changes as Salt does, and the effect."""
        told: dict[str, Any] = {}
        verbs: list[EffectVerb] = []
        for name, change in changes.items():
            old, new = change["old"], change["new"]
            verbs.append("change" if old and new else "add" if new else "remove")
            if name.startswith("/"):
                told["key"] = {"old": old, "new": f"{new} {name}" if new else new}
            elif old and new:
                told |= _differences(old, new)
            else:
                told["repo"] = hidden((self.ppa and f"ppa:{self.ppa}") or self.name)
        ctx.report.changes = told
        ctx.report.did(Effect((verbs[0],), f"the repository {hidden(self.ppa or self.name)}"), applied=applied)


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a repository that differ: name -> {old, new}."""
    if "types" in new.get("extra", {}):
        before, after = dict(apt.told(old)), dict(apt.told(new))
    else:
        before, after = ({**repo, **repo.get("extra", {})} for repo in (old, new))
    names = [name for name in {**before, **after} if name not in ("extra", "file", "id")]
    both = {name: {"old": before.get(name), "new": after.get(name)} for name in names}
    return {name: change for name, change in both.items() if change["old"] != change["new"]}


def hidden(text: str) -> str:
    """Return a text with user and password of URLs masked."""
    return SECRET.sub(r"\1***@", text)


def is_rpm(ctx: Context) -> bool:
    """Return whether repositories are sections of `.repo` files here."""
    return ctx.facts.get("os_family") in ("RedHat", "Suse")
