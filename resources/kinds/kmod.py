"""Modules of the kernel: loaded now and at the next boot."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from holdfast.resources import paths
from holdfast.resources.accepts import accepts
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, parse_list
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._lines import bare, ended, split
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.traits import Declaration, Reversible
from holdfast.resources.watches import either

LOADED, BUILT_IN = "/sys/module", "/lib/modules"
OWN_FILE, SALT_FILE = "/etc/modules-load.d/holdfast_managed.conf", "/etc/modules-load.d/salt_managed.conf"
WITHOUT_SYSTEMD = "/etc/modules"
BOOTED = "/run/systemd/system"
LIMIT = 1 << 20
"""Maximum size of the list of modules in the kernel, in bytes."""
MINUTE = 60
"""Time limit, in seconds, until the devices of a module are ready."""


@accepts(pattern=r"[A-Za-z0-9_][A-Za-z0-9_-]{0,54}")
def demand_module(value: str) -> str:
    """Return the name of a module in the notation of the kernel, without dashes. Raises `ValueError`."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,54}", value):
        raise ValueError(
            f"{value[:80]!r} is not the name of a module: a name has letters, digits, dashes and underscores; write "
            "options of a module into a file of /etc/modprobe.d"
        )
    return value.replace("-", "_")


Module = Annotated[str, AfterValidator(demand_module)]
Modules = Annotated[tuple[Module, ...], BeforeValidator(parse_list)]


class OfModules(Reversible, ConfigEntry):
    """Base of the kinds of modules."""

    makes_parents: ClassVar[bool] = True
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    name: str
    """The module; with `mods`, any name."""
    persist: bool = False
    """Do the same for the next boot, in `config`."""
    mods: Modules = ()
    """Several modules."""
    config: AbsPath | None = None
    """The file with the modules to load at boot.

    Default: `/etc/modules-load.d/holdfast_managed.conf`, or Salt's file there (`salt_managed.conf`) if it exists;
    without systemd, `/etc/modules`.
    """

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.mods:
            demand_module(self.name)
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules."""
        return self.mods or (demand_module(self.name),)

    def file(self) -> str:
        """Return the file with the modules of the next boot."""
        if self.config:
            return self.config
        if not paths.exists(BOOTED):
            return WITHOUT_SYSTEMD
        return SALT_FILE if paths.exists(SALT_FILE) else OWN_FILE

    def placed(self, ctx: Context) -> Self:
        """Return the resource with its file, which is Salt's if the agent should write Salt's names."""
        salt = self.config is None and ctx.salt_names and self.file() == OWN_FILE
        return self.model_copy(update={"config": SALT_FILE if salt else self.file()})

    def read(self, text: str) -> State:
        """Return which of the modules are in the file."""
        listed = {_listed(line) for line in split(text)}
        return {"persisted": tuple(name for name in self.modules if name in listed)}

    async def probe(self, ctx: Context) -> State:
        """Return which of the modules are loaded and which are in the file."""
        own = self.placed(ctx)
        kept = await super(OfModules, own).probe(ctx) if self.persist else {}
        with os_errors("inspect", LOADED):
            loaded = await ctx.blocking(self.loaded)
        return {**(kept or {}), "loaded": loaded}

    def loaded(self) -> tuple[str, ...]:
        """Return which of the modules are loaded. Blocks. Raises `OSError`."""
        return tuple(name for name in self.modules if paths.exists(f"{LOADED}/{name}/initstate"))

    async def keep(self, ctx: Context) -> None:
        """Write the file."""
        await self.rewrite(ctx, self.edited)

    def watch(self, ctx: Context) -> Watch:
        """Watch the messages of the kernel about modules and, with `persist`, the file."""
        kernel = ctx.watch_kernel("modules")
        return either(ctx.watch_path(self.placed(ctx).file()), kernel) if self.persist else kernel

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the modules."""
        return tuple(("module", name) for name in self.modules)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the affected modules with `loaded` or `removed`, as Salt does."""
        before, after = delta.before or {}, delta.after or {}
        words = {True: "loaded", False: "removed"}
        return {
            name: words[name in after[field]]
            for field in delta.fields
            for name in self.modules
            if (name in before[field]) is not (name in after[field])
        }

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does, and whether it only concerns the next boot."""
        names = ", ".join(self.changes(delta))
        (verb,) = self.effect_verbs
        boot = "" if "loaded" in delta.fields else " for the next boot"
        return Effect((verb,), f"kernel module {names}", detail=boot)


def _listed(line: str) -> str:
    """Return the module of a line of the file; empty for comments and blank lines."""
    words = bare(line).split()
    return words[0].replace("-", "_") if words and not words[0].startswith(("#", ";")) else ""


class Present(OfModules, kind="kmod.present"):
    """Modules of the kernel are loaded; with `persist`, also at each boot.

    Modules that are built into the kernel count as loaded. Messages of the kernel report changes of modules; inotify
    reports changes of the file.

    br_netfilter:
      kmod.present:
        - persist: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add",)

    def desired(self) -> State:
        """Return that all modules are loaded."""
        return {"loaded": self.modules, **({"persisted": self.modules} if self.persist else {})}

    def loaded(self) -> tuple[str, ...]:
        """Return which of the modules are loaded or built in."""
        names = super().loaded()
        if len(names) == len(self.modules):
            return names
        built = built_in()
        return tuple(
            name for name in self.modules if name in names or name in built or paths.exists(f"{LOADED}/{name}")
        )

    def offers(self) -> tuple[Uid, ...]:
        """Return the modules, which parameters of the kernel may need."""
        return self.uids()

    def edited(self, text: str) -> str:
        """Return the text with all modules: uncomment those that are comments, and add the others at the end."""
        lines = split(text)
        kept = {_listed(line) for line in lines}
        for name in (name for name in self.modules if name not in kept):
            commented = (number for number, line in enumerate(lines) if _listed(_plain(line)) == name)
            number = next(commented, None)
            if number is None:
                lines = split(f"{ended(''.join(lines))}{name}\n")
            else:
                lines[number] = _plain(lines[number])
        return "".join(lines)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Load the modules first: a module that does not exist must not be written for the next boot."""
        before = (delta.before or {})["loaded"]
        for name in self.modules:
            if name not in before:
                ctx.report.touched = True
                done = await ctx.run("modprobe", name, check=False, timeout=MINUTE)
                if done.retcode:
                    raise Permanent(f"cannot load kernel module {name}: {_said(done)}")
        if "persisted" in delta.fields:
            await self.placed(ctx).keep(ctx)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the absence of the modules that are not loaded; None if all are loaded."""
        before = await self.probe(ctx) or {}
        gone = [name for name in self.modules if name not in before["loaded"]]
        arguments = {"name": self.name, "mods": gone, "persist": self.persist, "comment": False, "config": self.config}
        return Declaration("kmod.absent", arguments) if gone else None

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"kernel module {', '.join(self.modules)} is already loaded"


class Absent(OfModules, kind="kmod.absent"):
    """Modules of the kernel are not loaded; with `persist`, not at boot, either.

    The state ignores modules that are built into the kernel, because they cannot be removed. Messages of the kernel
    report changes of modules; inotify reports changes of the file.

    pcspkr:
      kmod.absent
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    comment: bool = True
    """Comment the module out in the file; false: remove its line."""

    def desired(self) -> State:
        """Return that no module is loaded."""
        return {"loaded": (), **({"persisted": ()} if self.persist else {})}

    def edited(self, text: str) -> str:
        """Return the text without the modules."""
        mine = {*self.modules}
        lines = (line if _listed(line) not in mine else f"#{line}" if self.comment else "" for line in split(text))
        return "".join(lines)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Remove the modules, then their lines."""
        for name in (delta.before or {})["loaded"]:
            ctx.report.touched = True
            done = await ctx.run("rmmod", name, check=False, timeout=MINUTE)
            if done.retcode:
                raise Permanent(f"cannot remove kernel module {name}: {_said(done)}")
        if "persisted" in delta.fields:
            await self.placed(ctx).keep(ctx)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the presence of the modules that are loaded; None if none is loaded."""
        before = await self.probe(ctx) or {}
        arguments = {"name": self.name, "mods": [*before["loaded"]], "persist": self.persist, "config": self.config}
        return Declaration("kmod.present", arguments) if before["loaded"] else None

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"kernel module {', '.join(self.modules)} is not loaded"


def _plain(line: str) -> str:
    """Return a line without its comment mark."""
    return line.lstrip(" \t#;") if line.lstrip().startswith(("#", ";")) else line


def built_in() -> frozenset[str]:
    """Return the modules that are built into the kernel. Blocks. Raises `OSError`."""
    path = f"{BUILT_IN}/{os.uname().release}/modules.builtin"
    if not paths.exists(path):
        return frozenset()
    files: Sequence[str] = paths.read(path, LIMIT).decode(errors="replace").split()
    return frozenset(file.rpartition("/")[2].partition(".")[0].replace("-", "_") for file in files)


def _said(done: Completed) -> str:
    """Return the message of a tool and, if this kernel has no modules, a hint."""
    words, release = reason(done), os.uname().release
    if not paths.exists(f"{BUILT_IN}/{release}"):
        words += f"; {BUILT_IN}/{release} does not exist: in a container, load it on the host; after an upgrade, reboot"
    return words
