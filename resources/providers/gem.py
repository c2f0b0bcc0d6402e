"""Ruby packages by RubyGems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers.language_base import (
    USER,
    LanguageProvider,
    Versions,
    Where,
    parsed,
    refuse_reinstall,
)

LIST = """require "json"
gems = Gem::Specification.select do |gem|
  ARGV[0] == "all" ? gem.base_dir != Gem.user_dir : gem.base_dir == Gem.dir && !gem.default_gem?
end
puts JSON.generate(gems.group_by(&:name).transform_values { |all| all.map(&:version).uniq.sort.reverse.join(",") })"""
NEWEST = """require "rubygems/spec_fetcher"
name, *sources = ARGV
Gem.sources = sources if sources.any?
found, problems = Gem::SpecFetcher.fetcher.search_for_dependency(Gem::Dependency.new(name))
unread = problems.grep(Gem::SourceFetchProblem)
abort "ERROR: #{unread.map(&:wordy).join("; ")}" if found.empty? && unread.any?
puts found.map { |gem, _| gem.version }.max"""
"""Finds the newest version. `gem search` is not used, because it does not report an index that it cannot read."""
SORT = 'puts ARGV.map { |text| Gem::Version.new(text) }.uniq.sort.reverse.join(",")'
COMPARE = """begin
  puts Gem::Version.new(ARGV[0]) <=> Gem::Version.new(ARGV[1])
rescue ArgumentError => error
  abort "ERROR: #{error.message}"
end"""
FIND = "find the directories of gems"
PLANNED = re.compile(r"^  (.+)-([0-9][\w.]*)(?:-[a-z].*)?$", re.MULTILINE)
"""A gem in the output of `gem install --explain`: name, version, and the platform if it is a particular one."""


class Gem(LanguageProvider):
    """Ruby's packages. A path is a directory of gems, as in `GEM_HOME`; programs find them if `GEM_PATH` names it.

    Several versions of a gem may be installed beside each other; an installation leaves the others there. An
    installation runs the scripts by which a gem builds its native extensions, because gem has no option to skip them.
    An index that is an absolute path is a directory in which `gem generate_index` was run. RubyGems before 3.5 reads an
    index with Ruby's `Marshal`, so the author of the index can run code in a plan, too.
    """

    confine = Confine(commands=("gem", "ruby"))
    parts = (
        *("bin", "build_info", "cache", "extensions", "gems", "plugins", "specifications"),
        *("plugins/*", "specifications/*"),
    )

    async def _installed(self, where: Where) -> Versions:
        return await self._list("all" if where.target is None else "own", where)

    async def _newest(self, name: str, where: Where) -> str | None:
        done = await self._ruby(NEWEST, name, *_sources(where), where=where, to=f"ask gem for {name}")
        return done.strip() or None

    async def _plan(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> Versions:
        arguments = _arguments(pkgs, where, upgrade=upgrade)
        done = await self._gem(*arguments, "--explain", where=where, to=_title(pkgs))
        planned = dict(PLANNED.findall(done.stdout))
        for name in planned.keys() & before.keys():
            versions = [planned[name], *before[name].split(",")]
            planned[name] = (await self._ruby(SORT, *versions, where=where, to=_title(pkgs))).strip()
        return planned

    async def _install(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> None:
        """Install all packages or, if gem does not find one of them, none."""
        arguments = _arguments(pkgs, where, upgrade=upgrade)
        await self._gem(*arguments, "--explain", where=where, to=_title(pkgs))
        await self._gem(*arguments, where=where, to=_title(pkgs), shown=True)

    async def _remove(self, names: Sequence[str], where: Where) -> None:
        """Remove all versions."""
        switches = ("--all", "--executables", "--ignore-dependencies", "--no-user-install")
        await self._gem("uninstall", *switches, *names, where=where, to=f"remove {', '.join(names)}", shown=True)

    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions as RubyGems does: a part with letters makes a pre-release."""
        to = f"compare {a} and {b}"
        order = parsed(await self._ruby(COMPARE, a, b, where=Where(None, runas), to=to), int, to)
        return -1 if order < 0 else 1 if order else 0

    async def _places(self, where: Where) -> Sequence[str]:
        if where.target not in (None, USER):
            return [f"{where.target}/specifications"]
        script = "puts Gem.user_dir" if where.target == USER else "puts Gem.path"
        return [
            f"{line}/specifications" for line in (await self._ruby(script, where=where, to=FIND)).split("\n") if line
        ]

    # -- what only gem needs -------------------------------------------------------------------------------------

    async def _list(self, scope: Literal["all", "own"], where: Where) -> Versions:
        """Return the gems that all users find, or only those in the directory into which gem installs."""
        done = await self._ruby(LIST, scope, where=where, to="list packages")
        return parsed(done, Versions, "list packages")

    async def _demand_changeable(self, where: Where, verb: str, names: Sequence[str]) -> None:
        if verb != "remove" or where.target is not None:
            return  # only the packages that gem has installed into the target
        own = await self._list("own", where)
        if kept := [name for name in names if name not in own]:
            raise Permanent(
                f"cannot remove {', '.join(kept)}: not installed by gem, but a part of Ruby or of a package of the "
                "system; remove that package"
            )

    async def _gem(self, *arguments: str, where: Where, to: str, shown: bool = False) -> Completed:
        return await self._run(*where.words, "gem", *arguments, where=where, to=to, shown=shown)

    async def _ruby(self, script: str, *arguments: str, where: Where, to: str) -> str:
        return (await self._run(*where.words, "ruby", "-e", script, *arguments, where=where, to=to)).stdout

    async def _checked(self, where: Where) -> Where:
        """Add the start of a command that works on the target. A user's gems may need those of the host."""
        await super()._checked(where)
        words: list[str] = []
        if where.target == USER:
            found = await self._run("ruby", "-e", "puts Gem.user_dir", where=where, to=FIND)
            words = ["env", f"GEM_HOME={found.stdout.strip()}"]
        elif where.target:
            words = ["env", f"GEM_HOME={where.target}", f"GEM_PATH={where.target}"]
        return where._replace(words=words)


def _sources(where: Where) -> list[str]:
    """Return the URL of the index, if the caller names one."""
    if where.source is None:
        return []
    return [f"file://{where.source}/" if where.source.startswith("/") else where.source]


def _arguments(pkgs: Sequence[PkgSpec], where: Where, *, upgrade: bool) -> list[str]:
    """Return the arguments of gem that install packages."""
    refuse_reinstall("gem", pkgs)
    switches = ["--no-document", "--no-user-install", *([] if upgrade else ["--conservative"])]
    index = [word for source in _sources(where) for word in ("--clear-sources", "--source", source)]
    words = [pkg.source or ":".join(filter(None, (pkg.name, pkg.version))) for pkg in pkgs]
    return ["install", *switches, *index, *words]


def _title(pkgs: Sequence[PkgSpec]) -> str:
    return f"install {', '.join(pkg.name for pkg in pkgs)}"
