"""From settings to compiled states: the operator's kinds, grains, pillar, states, in that order.

The daemon keeps one `ConfigurationCompiler`: unchanged files are not read again.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.agent import facts
from holdfast.agent.function_check import FunctionCheck
from holdfast.agent.plugins.plugin_settings import demand_installed
from holdfast.agent.settings import Settings, ToolName
from holdfast.resources import paths, registry
from holdfast.resources.errors import RAISED, HoldfastError
from holdfast.resources.paths import trusted_uids
from holdfast.resources.secrets import Redactor
from holdfast.resources.spelling import nearest
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Call, Compilation, CompilerInputs
from holdfast.states.declare.pillar import Pillar, PillarCompiler, compile_pillar
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.parse.marks import Document, Spot
from holdfast.states.source.files import Text, Tree
from holdfast.states.source.hostfiles import absolute
from holdfast.states.source.refusals import refuse
from holdfast.states.view.grains import Grains, unnoted

if TYPE_CHECKING:
    from holdfast.agent.plugins.declared import DeclaredPlugin, PluginLoader
    from holdfast.agent.plugins.plugin_settings import PluginSettings
    from holdfast.states.lint.inspect import LintReport


class Compiled(NamedTuple):
    """The result of compiling one configuration."""

    compilation: Compilation
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    options: Mapping[str, Any]
    """The settings that templates see as `opts`."""
    redactor: Redactor
    """Redacts the secrets of the pillar."""
    warnings: tuple[Problem, ...] = ()
    read: frozenset[str] = frozenset()
    """Names of the grains that states, pillar and top files have read."""
    plugins: Mapping[str, DeclaredPlugin] = MappingProxyType({})
    """Package -> the plugin that provides its resources."""

    @property
    def managed(self) -> Callable[[], Iterable[str]]:
        """A function that finds the paths that the states manage."""
        return partial(_paths, self.compilation.calls)

    @property
    def packages(self) -> frozenset[str]:
        """The packages whose resources the states declare."""
        if not self.plugins:
            return frozenset()
        remote = (getattr(call.resource, "remote", None) for call in self.compilation.calls)
        return frozenset(each.package for each in remote if each is not None)


def _paths(calls: Sequence[Call]) -> frozenset[str]:
    """Return the paths that calls manage."""
    return frozenset(value for call in calls for kind, value in call.resource.uids() if kind == "path")


class ConfigurationCompiler:
    """Compiles the configuration that settings name; can be used repeatedly. Blocks: meant for a thread."""

    def __init__(self) -> None:
        self._compiler = Compiler()
        self._facts = facts.GrainParts()
        self._pillars: dict[Path, PillarCompiler] = {}
        self._function_check: tuple[Any, FunctionCheck] | None = None
        """What the last check was made for, and the check."""
        self._kinds: dict[Path, str] = {}
        """File of the operator's kinds -> digest of the loaded version."""
        self._plugin_loader: PluginLoader | None = None
        self.plugins: Mapping[str, DeclaredPlugin] = {}
        """The plugins of the settings that were last loaded."""

    def compile(
        self, settings: Settings, *, sls: tuple[str, ...] = (), grains: Mapping[str, Any] | None = None
    ) -> Compiled:
        """Compile everything; `grains` replace this host's. Raises `CompileError`."""
        self.load(settings)
        inputs = self._inputs(settings, grains)
        noting = Grains(inputs.grains)
        inputs = inputs._replace(grains=noting)
        pillars = (
            None
            if settings.pillar is None
            else self._pillars.setdefault(settings.pillar, PillarCompiler(settings.pillar))
        )
        pillar = Pillar(dict(inputs.pillar)) if pillars is None else pillars.compile(inputs)
        redactor = Redactor(pillar.data)
        try:
            compilation = self._compiler.compile(inputs._replace(pillar=pillar.data, sls=sls))
        except CompileError as error:
            raise error.redacted(redactor) from None
        lacking = tuple(self._functions(settings, unnoted(noting)).errors(compilation.calls)) if grains is None else ()
        if lacking:
            raise CompileError(lacking).redacted(redactor)
        read = frozenset(noting.read) | self._compiler.read | (pillars.renderer.read if pillars else frozenset())
        warnings = tuple(problem.redacted(redactor) for problem in (*pillar.warnings, *compilation.warnings))
        return Compiled(
            compilation, unnoted(noting), pillar.data, inputs.options, redactor, warnings, read, self.plugins
        )

    def check(
        self, settings: Settings, *, sls: tuple[str, ...] = (), grains: Mapping[str, Any] | None = None
    ) -> LintReport:
        """Return all findings about the states. Raises `CompileError` if the kinds or the pillar cannot be loaded."""
        from holdfast.states.lint.inspect import inspect  # noqa: PLC0415 - only `holdfast check` needs it

        self.load(settings)
        inputs = self._inputs(settings, grains)
        pillar = _pillar(settings, inputs)
        report, redactor = (
            inspect(
                inputs._replace(pillar=pillar.data, sls=sls),
                settings.lint.ignore,
                pillar.warnings,
                None if grains is not None else self._functions(settings, inputs.grains),
            ),
            Redactor(pillar.data),
        )
        errors, warnings = (
            tuple(problem.redacted(redactor) for problem in found) for found in (report.errors, report.warnings)
        )
        return replace(report, errors=errors, warnings=warnings)

    def pillar(self, settings: Settings, *, grains: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the pillar alone. Raises `CompileError`."""
        return _pillar(settings, self._inputs(settings, grains)).data

    def grains(self, settings: Settings) -> dict[str, Any]:
        """Return the host's grains, read again. A grain that cannot be read keeps its value.

        Raises `CompileError`; on the first call also `OSError`.
        """
        return facts.gather(settings, self._facts)

    def _functions(self, settings: Settings, grains: Mapping[str, Any]) -> FunctionCheck:
        """Return the check of the functions that states need, on this host.

        It is kept while nothing that decides it changes.
        """
        made_for = (grains, settings.providers, settings.interfaces)
        if self._function_check is None or self._function_check[0] != made_for:
            check = FunctionCheck(grains, settings.providers, strict=settings.interfaces == "strict")
            self._function_check = (made_for, check)
        return self._function_check[1]

    def _inputs(self, settings: Settings, grains: Mapping[str, Any] | None) -> CompilerInputs:
        known = self.grains(settings) if grains is None else dict(grains)
        return CompilerInputs(
            states=settings.states,
            grains=known,
            minion_id=str(known["id"]),
            env=settings.environment,
            options={
                "test": settings.engine.noop,
                "saltenv": settings.environment,
                "state_auto_order": settings.state_auto_order,
                "disabled_requisites": list(settings.disabled_requisites),
                "nodegroups": dict(settings.nodegroups),
                "template_commands": settings.template_commands,
                "salt_names": settings.salt_names,
                "providers": dict(settings.providers),
                "interfaces": settings.interfaces,
                "pillar_source_merging_strategy": settings.pillar_source_merging_strategy,
                "pillar_merge_lists": settings.pillar_merge_lists,
                "states_dir": str(settings.states),
                "pillar_dir": str(settings.pillar or ""),
                "state_dir": str(settings.state_dir),
            },
            trusted_uids=trusted_uids(),
            lenient=settings.lenient,
        )

    def load(self, settings: Settings) -> None:
        """Load the operator's kinds, providers and plugins that are new or changed, and check the chosen providers.

        Raises `CompileError` with all problems.
        """
        self.load_kinds(settings.resources)
        self.load_plugins(settings)
        if problems := list(_unknown_tools(settings.providers)):
            raise CompileError(problems)

    def load_all_kinds(self, settings: Settings) -> None:
        """Load the operator's kinds and those of packages, but no secrets. Raises `CompileError` with all problems."""
        self.load_kinds(settings.resources)
        self.load_plugins(settings, schemas_only=True)

    def load_readable_kinds(self, settings: Settings) -> list[Problem]:
        """Load the kinds that this user can read, as `load_all_kinds`; return what is wrong with the others."""
        problems: list[Problem] = []
        readable: dict[str, PluginSettings] = {}
        try:
            self.load_kinds(settings.resources)
        except CompileError as error:
            problems += error.problems
        for name, plugin in settings.plugins.items():
            wanted = {**readable, name: plugin}
            try:
                self.load_plugins(settings.model_copy(update={"plugins": wanted}), schemas_only=True)
            except CompileError as error:
                problems += error.problems
            else:
                readable = wanted
        return problems

    def load_plugins(self, settings: Settings, *, schemas_only: bool = False) -> None:
        """Load the plugins that the settings name, and declare their kinds. Raises `CompileError` with all problems."""
        if not settings.plugins and not registry.remote():
            self.plugins = {}
            return
        demand_installed(settings.plugins)
        from holdfast.agent.plugins.declared import PluginLoader  # noqa: PLC0415 - most settings name none
        from holdfast.agent.remote.declared import declare_kinds  # noqa: PLC0415 - the same

        self._plugin_loader = self._plugin_loader or PluginLoader()
        plugins = self._plugin_loader.load(settings.plugins, schemas_only=schemas_only)
        declare_kinds(plugins)
        self.plugins = plugins

    def load_kinds(self, directory: Path) -> None:
        """Load the operator's kinds that are new or changed. Raises `CompileError` with all problems."""
        tree = Tree(directory, trusted_uids())
        problems: list[Problem] = []
        for path in _files(directory):
            try:
                text = tree.read(path)
                if self._kinds.get(path) != text.digest:
                    _load(text)
                    self._function_check = None  # the file may have declared a provider
                    self._kinds[path] = text.digest
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)


def _unknown_tools(chosen: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each choice of a provider that no interface has."""
    if not chosen:
        return
    from holdfast.resources.interfaces import registry as interfaces  # noqa: PLC0415 - few settings choose one

    for name, tool in chosen.items():
        interface = interfaces.find(name)
        if interface is None:
            known, why = interfaces.names(), f"there is no interface {name!r}"
        elif interface.chosen_by_name:
            known, why = [], f"callers of {name} name the tool"
        else:
            known, why = sorted(interfaces.offers(interface)), f"{name} has no provider {tool!r}"
            if tool in known:
                continue
        meant = nearest(tool if interface else name, known)
        hint = f"did you mean {meant!r}?" if meant else f"available: {', '.join(known)}" if known else "leave it out"
        spot = tool.spot if isinstance(tool, ToolName) else Spot(Document("agent.yaml", ""))
        message = f"the setting 'providers.{name}' is wrong: {why}"
        yield spot.document.problem(spot.mark, "wrong-setting", message, hint)


def _pillar(settings: Settings, inputs: CompilerInputs) -> Pillar:
    """Return the pillar for a request. Raises `CompileError`."""
    return Pillar(dict(inputs.pillar)) if settings.pillar is None else compile_pillar(settings.pillar, inputs)


def _files(directory: Path) -> list[Path]:
    """Return the files of the operator's kinds, sorted; none if the directory does not exist.

    Raises `CompileError` if it is unreadable.
    """
    try:
        names = list(paths.directory(absolute(directory)).names())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    except paths.Unsafe as error:
        raise refuse(directory, "source-owner", str(error), "") from error
    except (OSError, ValueError) as error:  # a name that is too long or invalid
        why = getattr(error, "strerror", None) or str(error)
        raise refuse(directory, "source-unreadable", f"cannot read the directory: {why}", "") from error
    return sorted(directory / name for name in names if name.endswith(".py"))


def _load(text: Text) -> None:
    """Run the text that was read and checked: the file itself may have changed since."""
    path = text.path
    try:
        registry.load_file(path, text.text)
    except RAISED as error:
        lines = [
            frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
        ]
        line = (error.lineno or 0) if isinstance(error, SyntaxError) else (lines[-1] if lines else 0)
        why = re.sub(r" \([^()]*, line \d+\)$", "", str(error))
        said = why if isinstance(error, HoldfastError) else f"cannot load these kinds: {type(error).__name__}: {why}"
        problem = Problem(Location(str(path), line), "kind-broken", said)
        raise CompileError([problem]) from error
