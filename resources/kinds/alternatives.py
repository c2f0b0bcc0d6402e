"""Alternatives: which of several programs a common name, such as `editor`, runs."""

from __future__ import annotations

import stat
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.kinds._alternatives import ADMIN, CHOSEN, AlternativesGroup, parse
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.file.base import found, os_errors, present_text
from holdfast.resources.paths.handle import what
from holdfast.resources.traits import Declaration, Edgeable, Reversible

TOOL = "update-alternatives"
Path = Annotated[AbsPath, shaped(r"/[^\x00-\x1f\x7f]+", "a path without control characters")]
"""A path that fits on one line of a file."""


class InGroup(Edgeable, Reversible, Resource):
    """Base of the kinds of this family: the group of alternatives.

    inotify reports changes of the file of the group, of its link, and of the link to the chosen alternative.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "set", "remove")
    public_results: ClassVar[bool] = True

    name: Annotated[Text, shaped(r"[A-Za-z0-9_.][A-Za-z0-9_.+@:~-]*", "the name of a group of alternatives", 200)]
    """Name of the group: `editor`."""

    async def group(self, ctx: Context) -> AlternativesGroup | None:
        """Return the present group; None if there is none. Raises `Permanent`."""
        for directory in ADMIN:
            path = f"{directory}/{self.name}"
            text = await present_text(ctx, path)
            if text is None:
                continue
            try:
                return parse(text)
            except ValueError as error:
                raise Permanent(f"cannot read {path}: {error}") from None
        return None

    async def demand_group(self, ctx: Context) -> AlternativesGroup:
        """Return the present group. Raises `Permanent` if there is none."""
        group = await self.group(ctx)
        if group is None:
            raise Permanent(f"cannot {self.doing()}: it has no alternatives; declare one by alternatives.install")
        return group

    def chosen(self) -> str | None:
        """Return the target of the link to the chosen alternative; None if there is no link. Raises `Permanent`."""
        return _target(f"{CHOSEN}/{self.name}")

    async def call(self, ctx: Context, verb: str, *arguments: str) -> None:
        """Call the tool, for one state at a time because it has no lock. Raises `Permanent` with its message."""
        async with file_lock(CHOSEN):
            done = await ctx.run(TOOL, verb, *arguments, check=False)
        if done.retcode != 0 or "not replacing" in done.stderr:  # a file is in the place of a link
            raise Permanent(f"cannot {self.doing()}: {reason(done)}")
        if done.stderr.strip():
            ctx.log.warning("update-alternatives has a warning", why=reason(done))

    @abstractmethod
    def doing(self) -> str:
        """Return what a repair does, for errors."""

    def watch(self, ctx: Context) -> Watch:
        """Watch the file of the group and the links."""
        return ctx.watch_path(*(f"{directory}/{self.name}" for directory in ADMIN), f"{CHOSEN}/{self.name}")

    def touches(self) -> tuple[Uid, ...]:
        """Return the link to the chosen alternative."""
        return (("path", f"{CHOSEN}/{self.name}"),)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the choice."""
        return (("alternatives", self.name),)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on a choice."""
        return ()


class OneAlternative(InGroup):
    """Base of the kinds that concern one alternative of a group."""

    path: Path
    """Path of the alternative: `/usr/bin/vim.basic`."""

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the alternative."""
        return (("alternative", f"{self.name} {self.path}"),)


class Install(OneAlternative, kind="alternatives.install"):
    """A path is an alternative of a group, and the links of the group are in place.

    An existing alternative keeps its slaves. A missing group is created.

    editor:
      alternatives.install:
        - link: /usr/bin/editor
        - path: /usr/bin/vim.basic
        - priority: 50
    """

    link: Path
    """The common path, which becomes a link: `/usr/bin/editor`."""
    priority: int
    """In automatic mode, the alternative with the highest priority is chosen."""

    def desired(self) -> State:
        """Return the declared properties, with all links in place."""
        return {"link": self.link, "priority": self.priority, "links": "in place"}

    async def probe(self, ctx: Context) -> State:
        """Return the present properties; None if the path is not an alternative of the group."""
        group = await self.group(ctx)
        if group is None or self.path not in group.alternatives:
            return None
        chosen = self.chosen()
        right = _target(group.link) == f"{CHOSEN}/{self.name}" and chosen in group.alternatives
        if group.mode == "auto":
            right = right and chosen == group.best
        priority = group.alternatives[self.path].priority
        return {"link": group.link, "priority": priority, "links": "in place" if right else "damaged"}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Add the alternative, or add it again with its slaves, which also restores links.

        A file in the place of a link is reported before the tool runs: what the tool writes would cause an event, and
        the agent would try again and again.
        """
        self._demand_links()
        group = await self.group(ctx)
        slaves = group.slaves_of(self.path) if group is not None else []
        more = [word for slave in slaves for word in ("--slave", *slave)]
        await self.call(ctx, "--install", self.link, self.name, self.path, str(self.priority), *more)
        group = await self.demand_group(ctx)
        if group.mode == "manual" and self.chosen() not in group.alternatives:
            await self.call(ctx, "--auto", self.name)

    def _demand_links(self) -> None:
        """Raise `Permanent` if something else is in the place of a link."""
        for path in (self.link, f"{CHOSEN}/{self.name}"):
            seen = found(path)[1]
            if seen is not None and not stat.S_ISLNK(seen.st_mode):
                raise Permanent(
                    f"cannot {self.doing()}: {path} is {what(seen.st_mode)}, and the tool replaces only links; move it "
                    "away, or declare its absence by file.absent"
                )

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present alternative, or of its absence."""
        group = await self.group(ctx)
        arguments = {"name": self.name, "path": self.path}
        if group is None or self.path not in group.alternatives:
            return Declaration("alternatives.remove", arguments)
        known = {"link": group.link, "priority": group.alternatives[self.path].priority}
        return Declaration("alternatives.install", {**arguments, **known})

    def watch(self, ctx: Context) -> Watch:
        """Also watch the link of the group."""
        files = (f"{directory}/{self.name}" for directory in ADMIN)
        return ctx.watch_path(*files, f"{CHOSEN}/{self.name}", self.link)

    def doing(self) -> str:
        """Return what a repair does, for errors."""
        return f"add {self.path} to the alternatives for {self.name}"

    def offers(self) -> tuple[Uid, ...]:
        """Return the alternative, which another state may set, and the link."""
        return (*self.uids(), ("path", self.link))

    def touches(self) -> tuple[Uid, ...]:
        """Return the links."""
        return (*super().touches(), ("path", self.link))

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the path, which must exist, and the directory of the link."""
        return (Dependency("path", self.path, vital=False), lies_in(self.link, vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the declaration, as Salt does."""
        return {"name": self.name, "link": self.link, "path": self.path, "priority": self.priority}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        if delta.create:
            return Effect(("add",), self.path, detail=f" to the alternatives for {self.name}")
        return Effect(("set",), self.path, ", ".join(delta.fields), f" among the alternatives for {self.name}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.path} is already an alternative for {self.name}"


class Set(OneAlternative, kind="alternatives.set"):
    """A path is the chosen alternative of a group.

    editor:
      alternatives.set:
        - path: /usr/bin/vim.basic
    """

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the choice."""
        return (("alternatives", self.name),)

    def desired(self) -> State:
        """Return the declared choice."""
        return {"path": self.path}

    async def probe(self, ctx: Context) -> State:
        """Return the present choice. Raises `Permanent` if the path is not an alternative."""
        group = await self.demand_group(ctx)
        if self.path not in group.alternatives:
            known = ", ".join(group.alternatives)
            raise Permanent(f"cannot {self.doing()}: it is not an alternative; available: {known or 'none'}")
        return {"path": self.chosen() or ""}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Choose the path, which puts the group into manual mode."""
        await self.call(ctx, "--set", self.name, self.path)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present choice, or the automatic mode."""
        return await choice(self, ctx)

    def doing(self) -> str:
        """Return what a repair does, for errors."""
        return f"choose {self.path} for {self.name}"

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the alternative, and the path, which a package may provide."""
        return (
            Dependency("alternative", f"{self.name} {self.path}", vital=False),
            Dependency("path", self.path, vital=False),
        )

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the path, as Salt does."""
        return {"path": self.path}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("set",), self.name, detail=f" to {self.path}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is already {self.path}"


class Auto(InGroup, kind="alternatives.auto"):
    """A group is in automatic mode: the alternative with the highest priority is chosen.

    editor:
      alternatives.auto
    """

    def desired(self) -> State:
        """Return the automatic mode with the right choice."""
        return {"mode": "auto", "links": "in place"}

    async def probe(self, ctx: Context) -> State:
        """Return the present mode. Raises `Permanent` if the group does not exist."""
        group = await self.demand_group(ctx)
        return {"mode": group.mode, "links": "in place" if self.chosen() == group.best else "damaged"}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Switch to the automatic mode, which also restores the link."""
        await self.call(ctx, "--auto", self.name)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present choice, or the automatic mode."""
        return await choice(self, ctx)

    def doing(self) -> str:
        """Return what a repair does, for errors."""
        return f"choose an alternative for {self.name}"

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the differences under Salt's name."""
        return {"result": super().changes(delta)}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("set",), self.name, detail=" to automatic mode")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is in automatic mode"


class Remove(OneAlternative, kind="alternatives.remove"):
    """A path is not an alternative of a group, and the link of the group does not lead to it.

    editor:
      alternatives.remove:
        - path: /usr/bin/vim.basic
    """

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the path if it is an alternative or chosen, and the choice without it."""
        group = await self.group(ctx)
        chosen = None if group is None else self.chosen()
        if group is None or (self.path not in group.alternatives and chosen != self.path):
            return None
        left = group._replace(
            alternatives={path: each for path, each in group.alternatives.items() if path != self.path}
        )
        return {"path": self.path, "then": left.best if chosen == self.path else chosen}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the alternative. If it was chosen, the group returns to automatic mode.

        update-alternatives has no lock: an installation of the path that runs at the same time may leave only the link.
        """
        group = await self.group(ctx)
        if group is not None and self.path in group.alternatives:
            await self.call(ctx, "--remove", self.name, self.path)
        else:
            await self.call(ctx, "--auto", self.name)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return the present alternative; None if there is none."""
        group = await self.group(ctx)
        if group is None or self.path not in group.alternatives:
            return None
        known = {"link": group.link, "priority": group.alternatives[self.path].priority}
        return Declaration("alternatives.install", {"name": self.name, "path": self.path, **known})

    def doing(self) -> str:
        """Return what a repair does, for errors."""
        return f"remove {self.path} from the alternatives for {self.name}"

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new choice, as Salt does."""
        then = (delta.before or {}).get("then")
        return {"path": then} if then else {"removed": self.path}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        return Effect(("remove",), self.path, detail=f" from the alternatives for {self.name}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.path} is not an alternative for {self.name}"


async def choice(resource: InGroup, ctx: Context) -> Declaration | None:
    """Return the present choice of a group as a declaration; None if the group does not exist."""
    group = await resource.group(ctx)
    if group is None:
        return None
    if group.mode == "auto":
        return Declaration("alternatives.auto", {"name": resource.name})
    return Declaration("alternatives.set", {"name": resource.name, "path": resource.chosen() or group.best})


def _target(path: str) -> str | None:
    """Return the target of a link; None if there is no link. Raises `Permanent`."""
    place, seen = found(path)
    if place is None or seen is None or not stat.S_ISLNK(seen.st_mode):
        return None
    with os_errors("read", path):
        return place.readlink()
