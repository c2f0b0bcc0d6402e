"""Locales: those that exist, and the default locale of the system."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, shaped
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds._lines import bare, end_of, ended, split
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.traits import Declaration, Reversible

LISTED = "/etc/locale.gen"
"""List of the locales that Debian, Arch and Gentoo compile again at each upgrade of the C library."""
COMPILED = "/usr/lib/locale"
ARCHIVE = f"{COMPILED}/locale-archive"
SUPPORTED = "/usr/share/i18n/SUPPORTED"
"""List of pairs of a locale and its character map."""
DEBIAN, EVERYWHERE = "/etc/default/locale", "/etc/locale.conf"
MINUTES = 5 * 60
"""Time limit of the compilation of one locale, in seconds."""
NAME = r"[A-Za-z]{1,8}(_[A-Za-z0-9]{1,8})?(\.[A-Za-z0-9-]{1,32})?(@[A-Za-z0-9]{1,32})?"


class LocaleName(NamedTuple):
    """The parts of `de_DE.UTF-8@euro UTF-8`."""

    base: str
    codeset: str
    modifier: str
    charmap: str

    @property
    def normal(self) -> str:
        """The name as `locale -a` shows it: `de_DE.utf8@euro`."""
        codeset = re.sub(r"[^a-z0-9]", "", self.codeset.lower())
        return f"{self.base}{codeset and f'.{codeset}'}{self.modifier}"

    @property
    def written(self) -> str:
        """The name in its usual spelling: `de_DE.UTF-8@euro`."""
        codeset = "UTF-8" if self.codeset.lower().replace("-", "") == "utf8" else self.codeset
        return f"{self.base}{codeset and f'.{codeset}'}{self.modifier}"


def parsed(text: str) -> LocaleName:
    """Return the parts of a locale; missing parts are empty."""
    name, _, charmap = text.strip().partition(" ")
    name, at, modifier = name.partition("@")
    base, _, codeset = name.partition(".")
    return LocaleName(base, codeset, f"{at}{modifier}", charmap.strip())


class Present(ConfigEntry, kind="locale.present"):
    """A locale is compiled, also after upgrades of the C library.

    `localedef` compiles the locale; other locales do not change. If `/etc/locale.gen` exists (Debian, Arch, Gentoo),
    the state lists the locale there. inotify reports changes of this file and of the compiled locales.

    de_DE.UTF-8:
      locale.present
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "add")

    name: Annotated[
        str, shaped(rf"{NAME}( +[A-Za-z0-9_-]{{1,32}})?", "a locale, such as de_DE.UTF-8 or 'de_DE ISO-8859-1'", 200)
    ]
    """The locale, possibly with its character map: `de_DE.UTF-8`, `de_DE@euro ISO-8859-15`."""

    @property
    def locale(self) -> LocaleName:
        """The parts of the name."""
        return parsed(self.name)

    def file(self) -> str:
        """Return the list of locales."""
        return LISTED

    def desired(self) -> State:
        """Return that the locale is compiled and listed."""
        return {"compiled": True, "listed": True}

    def read(self, text: str) -> State:
        """Return whether a line other than a comment lists the locale."""
        return {"listed": any(self._mine(line) for line in split(text))}

    def _mine(self, line: str) -> bool:
        """Return whether a line lists the locale."""
        seen, own = parsed(bare(line)), self.locale
        return seen.normal == own.normal and own.charmap in {"", seen.charmap}

    def edited(self, text: str) -> str:
        """Return the text that lists the locale: uncomment its line, or add it at the end."""
        lines = split(text)
        for number, line in enumerate(lines):
            if line.lstrip().startswith("#") and self._mine(plain := line.lstrip().removeprefix("#").lstrip()):
                return "".join([*lines[:number], plain, *lines[number + 1 :]])
        return f"{ended(text)}{self.locale.written} {self._charmap()}{end_of(text[: text.find(chr(10)) + 1])}"

    async def probe(self, ctx: Context) -> State:
        """Return whether the locale is compiled and, if there is a list, whether it is listed."""
        listed = await super().probe(ctx) if paths.exists(LISTED) else {"listed": True}
        if self.locale.written in {"C", "POSIX"}:
            return {"compiled": True, "listed": True}
        known = (await ctx.run("locale", "-a")).stdout.split("\n")
        normal = {parsed(line).normal for line in known if line}
        built_in = self.locale.normal in normal and self.locale.base == "C"
        return {"compiled": self.locale.normal in normal, "listed": built_in or bool((listed or {}).get("listed"))}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Compile the locale first: a locale that does not exist must not be listed."""
        if "compiled" in delta.fields:
            await self._compile(ctx)
        if "listed" in delta.fields:
            await super().apply(ctx, delta)

    async def _compile(self, ctx: Context) -> None:
        own, charmap = self.locale, self._charmap()
        ctx.report.touched = True
        argv = ("localedef", "-i", f"{own.base}{own.modifier}", "-c", "-f", charmap, own.written)
        done = await ctx.run(*argv, check=False, timeout=MINUTES)
        if "cannot open" in done.stderr or "not found" in done.stderr:
            raise Permanent(
                f"cannot compile the locale {self.name}: its source or character map is missing; install locales "
                "(Debian), glibc-locale-source (Fedora) or glibc-i18ndata (openSUSE), or correct the name"
            )
        if done.retcode > 1:  # 1: there were warnings
            raise Permanent(f"cannot compile the locale {self.name}: {reason(done)}")

    def _charmap(self) -> str:
        """Return the character map that is declared, in the name, or supported by the C library."""
        own = self.locale
        if own.charmap or own.codeset:
            return own.charmap or ("UTF-8" if own.written.partition(".")[2].startswith("UTF-8") else own.codeset)
        try:
            pairs = paths.read(SUPPORTED).decode(errors="replace").split("\n")
        except OSError:
            pairs = []
        found = next((line.partition(" ")[2] for line in pairs if line.partition(" ")[0] == own.written), "")
        if not found:
            raise Permanent(f"the character map of {self.name} is unknown: add it, as in '{self.name} ISO-8859-1'")
        return found

    def watch(self, ctx: Context) -> Watch:
        """Watch the list and the compiled locales."""
        return ctx.watch_path(LISTED, ARCHIVE, f"{COMPILED}/{self.locale.normal}")

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the locale."""
        return (("locale", self.locale.normal),)

    def offers(self) -> tuple[Uid, ...]:
        """Return the locale."""
        return self.uids()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the list and the package with the sources."""
        return (*super().dependencies(), Dependency("pkg", "locales", vital=False))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the locale, as Salt does."""
        return {"locale": self.name}

    def effect(self, delta: Delta) -> Effect:
        """Return whether a repair compiles or only lists the locale."""
        if "compiled" in delta.fields:
            return Effect(("create",), f"locale {self.name}")
        return Effect(("add",), f"locale {self.name}", detail=f" to {LISTED}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"locale {self.name} already exists"


class System(Reversible, ConfigEntry, kind="locale.system"):
    """The system has a default locale, for new logins and for services that start later.

    The locale is `LANG` in `/etc/default/locale` (Debian) or `/etc/locale.conf` (elsewhere); `LC_TIME` and all other
    lines stay. systemd's own service (`localectl`) sees the change at once. inotify reports changes of the file.

    de_DE.UTF-8:
      locale.system
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set",)
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    name: Annotated[str, shaped(NAME, "a locale, such as de_DE.UTF-8", 200)]
    """The locale."""
    config: AbsPath | None = None
    """The file. Default: that of the distribution."""

    def file(self) -> str:
        """Return the file of this distribution."""
        return self.config or (DEBIAN if paths.exists("/etc/debian_version") else EVERYWHERE)

    def desired(self) -> State:
        """Return the locale."""
        return {"locale": self.name}

    def read(self, text: str) -> State:
        """Return the value of the last line that sets LANG, because that line counts."""
        values = [line.strip().partition("=")[2].strip("\"'") for line in split(text) if _sets(line)]
        return {"locale": values[-1] if values else ""}

    def edited(self, text: str) -> str:
        """Return the text with the locale on the last line that sets LANG, or on a new line at the end."""
        lines = split(text)
        places = [number for number, line in enumerate(lines) if _sets(line)]
        if not places:
            return f"{ended(text)}LANG={self.name}\n"
        quote = '"' if '"' in lines[places[-1]] else ""
        lines[places[-1]] = f"LANG={quote}{self.name}{quote}{end_of(lines[places[-1]])}"
        return "".join(lines)

    async def probe(self, ctx: Context) -> State:
        """Return the present locale. Raises `Permanent` if it is unknown which file has it."""
        with os_errors("inspect", EVERYWHERE):
            known = self.config or self.file() == DEBIAN or paths.exists("/run/systemd") or paths.exists(EVERYWHERE)
        if not known:
            raise Permanent(
                f"the file with the locale of this system is unknown: it has neither {DEBIAN} nor {EVERYWHERE}; "
                "name the file in config"
            )
        return await super().probe(ctx)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file, then notify systemd, which passes the locale to services."""
        await super().apply(ctx, delta)
        if self.config is None and paths.exists("/run/systemd/system"):
            await ctx.run("systemctl", "set-environment", f"LANG={self.name}", check=False)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the default locale."""
        return (("default-locale", self.config or "system"),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the file and the locale."""
        return (*super().dependencies(), Dependency("locale", parsed(self.name).normal, vital=False))

    def contradicts(self, other: Resource) -> str | None:
        """Return whether both declare different locales."""
        if isinstance(other, System) and other.name != self.name:
            return f"the default locale is {self.name}, not {other.name}"
        return super().contradicts(other)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present locale; None if there is none."""
        known = (self.read(await self.text(ctx)) or {})["locale"]
        return Declaration("locale.system", {"name": known, "config": self.config}) if known else None

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the locale, as Salt does."""
        return {"locale": self.name}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair sets."""
        return Effect(("set",), "the default locale", detail=f" to {self.name}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the default locale is already {self.name}"


def _sets(line: str) -> bool:
    """Return whether a line sets LANG."""
    return re.match(r"\s*LANG=", line) is not None
