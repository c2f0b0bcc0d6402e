"""The work of `idl`: check and compile packages, and make new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click

from holdfast.agent.cli.terminal import say
from holdfast.agent.idl.against import allowed, breaking
from holdfast.agent.idl.compiler import CompiledPackage, compiled
from holdfast.agent.idl.declared import ClassSyntax
from holdfast.agent.idl.names import unknown
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.sources import MANIFEST, wrong_member
from holdfast.agent.idl.starting import DECLARED, PROVIDERS, TARGETS, files_of
from holdfast.agent.idl.targets import BUILT_IN, GROUP, PackageTarget
from holdfast.agent.idl.writing import SCHEMA, OutputDirectory, with_header, write
from holdfast.agent.model.package import Package, from_json, to_json
from holdfast.agent.phrases import number_of
from holdfast.resources.errors import RAISED
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.refusals import display


def check(root: Path, against: Path | None) -> None:
    """Check a package, and compare it with an older schema. Raises `CompileError`."""
    found = compiled(root)
    resources = sum(len(each.resources) for each in found.package.modules)
    if against is not None:
        _compare(found, _schema(against))
    say(f"{found.package.name} {found.package.version}: {number_of(resources, 'resource')}, no errors")


def _schema(path: Path) -> Package:
    """Return the package of a schema.json. Raises `CompileError`."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        told = f"cannot read the schema: {error.strerror}"
    except (ValueError, RecursionError) as error:
        told = f"this is not a schema: {error}"
    hint = "name the schema.json of the older version, which compile has written"
    raise CompileError([Problem(Location(display(path)), "idl-schema", told, hint)])


def _compare(found: CompiledPackage, old: Package) -> None:
    """Print the changes that break users. Raises `CompileError` if the version does not permit them."""
    new, problems = found.package, []
    for change in breaking(old, new):
        if allowed(old.version, new.version):
            say(f"{change.message} (permitted: {old.version} -> {new.version})")
        else:
            major, minor, _ = old.version.split(".")
            needed = f"{int(major) + 1}.0.0" if int(major) else f"0.{int(minor) + 1}.0"
            hint = f"undo it, or give the package the version {needed}"
            problems.append(_at(found, change.place, f"{change.message} since {old.version}", hint))
    if problems:
        raise CompileError(problems)


def _at(found: CompiledPackage, place: str, message: str, hint: str) -> Problem:
    """Return a problem at a declaration; at the manifest if the declaration has been removed."""
    qualified, _, field = place.partition(".")
    made = found.scope.declared(qualified)
    module = found.scope.modules.get(qualified.partition(":")[0])
    if made is None or module is None:
        return Problem(Location(display(found.root / MANIFEST)), "idl-breaking", message, hint)
    node = made.fields[field].node if isinstance(made, ClassSyntax) and field in made.fields else made.node
    return SourceReport.at(module.source, node, "idl-breaking", message, hint)


# -- compile -----------------------------------------------------------------------------------------------------


def compile_package(root: Path, pack: Path, provider: Path, targets: Sequence[str], *, stale: bool) -> None:
    """Compile a package. Raises `CompileError`; then nothing is written. `stale`: only compare, and write nothing."""
    outputs = _outputs(root, pack, provider, targets)
    if stale:
        if problems := [problem for each in outputs for problem in each.stale()]:
            raise CompileError(problems)
        say("all generated files are up to date")
        return
    write(outputs)
    for each in outputs:
        for path in sorted(each.changed):
            say(f"wrote {display(each.root / path)}")
        for path in each.removed:
            say(f"removed {display(each.root / path)}")
    same = sum(len(each.wanted) - len(each.changed) for each in outputs)
    say(f"{number_of(same, 'file')} unchanged")


def _outputs(root: Path, pack: Path, provider: Path, targets: Sequence[str]) -> list[OutputDirectory]:
    """Return what a package is compiled to, compared with what is there. Raises `CompileError`; nothing is written."""
    _demand_apart(root, pack, provider)
    package = compiled(root).package
    chosen, schema = list(_targets(targets)), to_json(package)
    names, problems = [each.name for each in chosen], list[Problem]()
    makers = (
        (pack, {each.name: each.pack for each in chosen}),
        (provider, {each.name: each.provider for each in chosen}),
    )
    outputs = [OutputDirectory(root, _files(package, schema, make, problems), names) for root, make in makers]
    if problems := problems or [problem for each in outputs for problem in each.compare()]:
        raise CompileError(problems)
    return outputs


def _demand_apart(*roots: Path) -> None:
    """Raise `UsageError` if one of the directories is another one, or is in it."""
    real = [os.path.realpath(each) for each in roots]
    for number, each in enumerate(real):
        inside = [other for other in real[:number] if os.path.commonpath([each, other]) in (each, other)]
        if inside:
            raise click.UsageError(f"{each} and {inside[0]} overlap; use three separate directories")


def _files(package: Package, schema: str, makers: Mapping[str, object], problems: list[Problem]) -> dict[str, str]:
    """Return all files of one output: path -> text. A target that fails adds to the problems."""
    files = {SCHEMA: schema}
    sources = {each.name for each in package.modules}
    for name, make in makers.items():
        try:
            made = make(package)  # type: ignore[operator]
            for path, text in made.items():
                if path in files or path.startswith("/") or ".." in path.split("/"):
                    raise ValueError(f"the path {path!r} is already used, or leads out of the directory")
                files[path] = with_header(path, text, sources, package.name, name)
        except RAISED as error:  # a target may be the code of another distribution
            told = f"the target {name!r} fails: {type(error).__name__}: {error}"
            problems.append(Problem(Location(name), "idl-target", told))
    return files


def _targets(names: Sequence[str]) -> Iterator[PackageTarget]:
    """Yield the targets with these names, or all that are built in. Raises `UsageError`."""
    known: dict[str, EntryPoint | str] = {each.name: each for each in entry_points(group=GROUP)}
    known.update(BUILT_IN)
    for name in dict.fromkeys(names or BUILT_IN):
        if name not in known:
            told, hint = unknown("target", name, sorted(known))
            raise click.UsageError(f"{told}; {hint}")
        found = known[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            yield getattr(import_module(module), attribute)
            continue
        try:
            yield found.load()
        except RAISED as error:  # a target may be the code of another distribution
            raise click.UsageError(f"the target {name!r} cannot be loaded: {error}") from error


# -- new ---------------------------------------------------------------------------------------------------------


def new(name: str, folder: Path, language: str) -> None:
    """Make a package, whose provider is in this language.

    Raises `UsageError` if its folder exists or its name is not allowed.
    """
    told, hint = wrong_member("name", name)
    if told:
        raise click.UsageError(f"{told}; {hint}")
    if os.path.lexists(folder):
        raise click.UsageError(f"{folder} exists; name a new folder with --to")
    absolute = Path(os.path.abspath(folder))  # noqa: PTH100 - removes ".."
    write([OutputDirectory(folder, {}, changed=files_of(name, language, absolute))])
    idl, pack, provider = (folder / each for each in ("idl", "pack", "provider"))
    outputs = _outputs(idl, pack, provider, TARGETS[language])
    write(outputs)
    generated = sum(len(each.changed) for each in outputs)
    say(f"{number_of(generated, 'file')} generated in {display(pack)} and {display(provider)}")
    declared, program = display(idl / DECLARED), display(folder / PROVIDERS[language])
    say(f"yours to edit: {declared} (the resource), {program} (the provider)")
    say(f"{display(folder / 'README.md')} says what is where, and what to do next")
