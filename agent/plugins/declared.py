"""The plugins that the settings name, with the schemas of their packages and their configurations, read and checked.

Everything is read when the configuration is loaded, so that errors are reported with their lines in agent.yaml.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.agent.model.model import Record
from holdfast.agent.plugins.masking import texts_of
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.plugin_settings import FILE, PluginConfig, PluginSettings, used_files
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import steps
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.errors import CompileError, Problem

LARGEST = 64 << 20
"""Most bytes of a schema.json."""
LONGEST = 1 << 20
"""Most bytes of a file with a secret."""
REFUSED = "cannot use the secret"
"""The beginning of the message; the error for a file that others can read has its own text."""


@dataclass(frozen=True)
class DeclaredPlugin:
    """A plugin as the configuration declares it. Equal declarations can share a process."""

    name: str
    """Name of its package."""
    settings: PluginSettings
    schema: Schema = field(compare=False)
    digest: str
    """SHA-256 of schema.json."""
    config: bytes
    """Configuration on the wire. It may hold secrets: it is never shown."""
    secrets: tuple[str, ...]
    """Secret texts of the configuration: they are masked in all output of the plugin."""
    stamps: tuple[tuple[int, ...], ...] = ()
    """Metadata of its program and its certificates: they change when a file is replaced."""


class PluginLoader:
    """Reads the plugins of settings; schemas that have not changed are not parsed again. Blocks."""

    def __init__(self) -> None:
        self._schemas: dict[Path, tuple[str, Schema]] = {}
        """File -> digest of its content, and its schema."""

    def load(self, plugins: Mapping[str, PluginSettings], *, schemas_only: bool = False) -> dict[str, DeclaredPlugin]:
        """Return the plugins by the names of their packages; with `schemas_only`, without their configurations.

        Raises `CompileError` with all problems.
        """
        found: dict[str, DeclaredPlugin] = {}
        problems: list[Problem] = []
        for name, settings in plugins.items():
            try:
                found[name] = self._loaded(name, settings, schemas_only)
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)
        self._schemas = {path: each for path, each in self._schemas.items() if path in _paths(plugins)}
        return found

    def _loaded(self, name: str, settings: PluginSettings, schema_only: bool) -> DeclaredPlugin:
        digest, schema = self._schema(name, settings)
        if settings.address is not None or schema_only:
            return DeclaredPlugin(name, settings, schema, digest, b"", (), _stamps(settings))
        given = _given(settings)
        data, problems = _with_secrets(schema.config, given)
        if problems:
            raise CompileError(problems)
        payloads = Payloads(schema)
        try:
            values = payloads.config_given(data)
        except InvalidPayload as error:
            raise CompileError([*_violations(given, error)]) from None
        payload, secrets = payloads.pack_config(values), tuple(texts_of(values))
        return DeclaredPlugin(name, settings, schema, digest, payload, secrets, _stamps(settings))

    def _schema(self, name: str, settings: PluginSettings) -> tuple[str, Schema]:
        """Return the digest of the file and its schema. Raises `CompileError`."""
        path, config = settings.schema, _given(settings)
        try:
            content = paths.read_trusted(str(path), LARGEST)
            digest = hashlib.sha256(content).hexdigest()
            known = self._schemas.get(path)
            if known is None or known[0] != digest:
                known = self._schemas[path] = digest, Schema.read(content.decode())
        except (OSError, HoldfastError) as error:
            why = f"cannot read {path}: {_said(error)}"
            raise CompileError([config.problem(("schema",), why, _advice(error))]) from None
        except (ValueError, RecursionError) as error:
            why, advice = f"{path} is not the schema of a package: {error}", "`holdfast idl compile` writes schema.json"
            raise CompileError([config.problem(("schema",), why, advice)]) from None
        if known[1].package.name != name:
            why = f"{path} is the schema of the package {known[1].package.name!r}"
            raise CompileError([config.problem(("schema",), why, f"name the plugin {known[1].package.name!r}")])
        return known


def _stamps(settings: PluginSettings) -> tuple[tuple[int, ...], ...]:
    """Return the metadata of the files that the plugin uses: they change when a file is replaced."""
    found: list[tuple[int, ...]] = []
    for path in used_files(settings):
        try:
            info = path.stat()
        except (OSError, ValueError):  # the file may be created later
            found.append(())
        else:
            regular = stat.S_ISREG(info.st_mode)
            found.append((info.st_ino, info.st_mtime_ns, info.st_size) if regular else ())
    return tuple(found)


def _paths(plugins: Mapping[str, PluginSettings]) -> set[Path]:
    return {each.schema for each in plugins.values()}


def problem(plugin: DeclaredPlugin, path: Sequence[str], message: str, hint: str = "") -> Problem:
    """Return a problem of a setting of a plugin."""
    return _given(plugin.settings).problem(path, message, hint)


def _given(settings: PluginSettings) -> PluginConfig:
    return settings.config if isinstance(settings.config, PluginConfig) else PluginConfig(settings.config)


def _with_secrets(record: Record | None, given: PluginConfig) -> tuple[dict[str, Any], list[Problem]]:
    """Return the configuration with the secrets that files contain, and the problems of these files."""
    names = {each.name for each in record.fields} if record else set()
    secret = [each.name for each in record.fields if each.secret] if record else []
    data: dict[str, Any] = dict(given)
    problems: list[Problem] = []
    for name in secret:
        key = name + FILE
        if name in given:
            why, advice = "it is secret, and agent.yaml is not", f"write {key!r} with the path of a file that holds it"
            problems.append(given.problem(("config", name), why, advice))
        elif key in given and key not in names:
            try:
                data[name] = _read_secret(data.pop(key))
            except (OSError, HoldfastError, UnicodeDecodeError) as error:
                said = _said(error)
                why = said if said.startswith(REFUSED) else f"{REFUSED}: {said}"
                problems.append(given.problem(("config", key), why, _advice(error)))
    return data, problems


def _read_secret(path: Any) -> str:
    """Return the content of a file without its last line break. Raises `OSError`, `Permanent` and `Unsafe`."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise HoldfastError("write the absolute path of a file")
    return paths.read_trusted(path, LONGEST, secret=True).decode().removesuffix("\n")


def _violations(given: PluginConfig, error: InvalidPayload) -> Iterator[Problem]:
    """Yield a problem for each violation, at its line."""
    for each in error.violations:
        path = steps(each.path)
        if path and path[0] not in given and f"{path[0]}{FILE}" in given:
            path = (f"{path[0]}{FILE}",)
        yield given.problem(("config", *path), each.message)


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _advice(error: Exception) -> str:
    return "write the absolute path of a file that exists" if isinstance(error, FileNotFoundError) else ""
