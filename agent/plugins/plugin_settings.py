"""The settings of one plugin: how the agent starts it or where it runs, and its configuration."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from holdfast.agent.paths import anchored
from holdfast.agent.plugins.shipped import ready
from holdfast.agent.settings_types import Location, SettingsGroup
from holdfast.resources.fields import field
from holdfast.states.errors import CompileError, Problem
from holdfast.states.parse.marks import Document, Map, descend

ADDRESS = r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})"
VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
OWN = "HOLDFAST_"
"""Variables with this prefix belong to the agent."""
FILE = "_file"
"""Ending of the setting that names the file of a secret."""
LIBRARIES = ("google.protobuf", "grpc")
STARTED = ("user", "environment", "memory", "files", "config")
"""Settings of a plugin that the agent starts."""


class PluginConfig(dict[str, Any]):
    """The configuration of a plugin as the operator has written it, with its place in agent.yaml."""

    place: tuple[Document, Map, tuple[str, ...]] | None = None

    def problem(self, steps: Sequence[Any], message: str, hint: str = "") -> Problem:
        """Return a problem of a setting of the plugin; `steps` lead to it from the name of the plugin."""
        document, values, path = self.place or (Document("agent.yaml", ""), Map(), ("plugins",))
        name = ".".join(map(str, (*path, *steps)))
        text = f"the setting {name!r} is wrong: {message}"
        return document.problem(descend(values, (*path, *steps)), "wrong-setting", text, hint)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # `schema` is also the name of a former method of pydantic, which nothing uses

    class PluginSettings(SettingsGroup):
        """A process that provides the resources of one package."""

        schema: Location = Path()  # type: ignore[assignment]
        """The file schema.json of the package, which `holdfast idl compile` has written. Default: that of a package of
        Holdfast itself."""
        command: tuple[str, ...] = ()
        """The program that provides the resources, an absolute path or a name on PATH, and its arguments."""
        user: str | None = Field(None, min_length=1)
        """The user that it runs as. Default: the one that the package names, else one of its own without a name; that
        of the agent if that is not root."""
        environment: dict[str, str] = Field(default_factory=dict)
        """More variables of its environment, which has only PATH and HOME."""
        memory: int | None = field(None, unit="MiB", ge=16)
        """Address space that it may use. None: no limit. Some languages reserve much more than they use."""
        files: int = Field(1024, ge=64)
        """Files that it may have open."""
        calls: int = Field(16, ge=1)
        """Calls that it gets at once; further ones wait."""
        config: dict[str, Any] = Field(default_factory=dict)
        """Its configuration, as the package declares it. A secret `NAME` is in the file that `NAME_file` names."""
        address: str | None = None
        """`HOST:PORT` of a plugin that the agent does not start."""
        ca: Location | None = None
        """Certificates of the authorities that may have signed that plugin's certificate, in PEM."""
        cert: Location | None = None
        """The certificate of the agent, in PEM, which that plugin demands."""
        key: Location | None = None
        """Its private key, without a passphrase. Default: in the file of the certificate."""

        @field_validator("command")
        @classmethod
        def _program(cls, command: tuple[str, ...]) -> tuple[str, ...]:
            if any("\0" in word for word in command):
                raise ValueError("a word of a command cannot contain a NUL character")
            if command and "/" in command[0] and not command[0].startswith("/"):
                raise ValueError("write the absolute path of the program, or its name if it is on PATH")
            if command and not command[0]:
                raise ValueError("the first word is the program")
            return command

        @field_validator("environment")
        @classmethod
        def _variables(cls, environment: dict[str, str]) -> dict[str, str]:
            for name, value in environment.items():
                if not re.fullmatch(VARIABLE, name) or "\0" in value:
                    raise ValueError(f"{name!r} is no variable: names have letters, digits and '_', values no NUL")
                if name.startswith(OWN):
                    raise ValueError(f"the agent sets {name} itself")
            return environment

        @field_validator("address")
        @classmethod
        def _reachable(cls, address: str | None) -> str | None:
            if address is not None:
                found = re.fullmatch(ADDRESS, address)
                if not found or not 0 < int(found[2]) < 65536:
                    raise ValueError("write HOST:PORT, such as db.example.org:7400")
            return address

        @model_validator(mode="after")
        def _one_way(self) -> Self:
            given = self.model_fields_set
            if "schema" not in given:
                known = ", ".join(ready())
                raise ValueError(f"write `schema`, the file schema.json of the package; only {known} can do without")
            if (self.address is None) == (not self.command):
                raise ValueError("write either `command`, which the agent runs, or `address`, where the plugin runs")
            if self.address is not None:
                if wrong := [name for name in STARTED if name in given]:
                    raise ValueError(f"`{wrong[0]}` is for a plugin with a `command`, which the agent starts")
                if self.ca is None or self.cert is None:
                    raise ValueError("a plugin with an `address` needs `ca` and `cert`: both ends show a certificate")
            elif wrong := [name for name in ("ca", "cert", "key") if name in given]:
                raise ValueError(f"`{wrong[0]}` is for a plugin with an `address`")
            return self


def placed(plugins: Mapping[str, PluginSettings], document: Document, values: Map) -> dict[str, PluginSettings]:
    """Return the settings with their places in agent.yaml, where violations of the package's rules are reported."""
    found = {}
    for name, each in plugins.items():
        config = PluginConfig(each.config)
        config.place = document, values, ("plugins", name)
        found[name] = each.model_copy(update={"config": config})
    return found


def anchored_plugins(plugins: Mapping[str, PluginSettings], base: Path) -> dict[str, PluginSettings]:
    """Return the settings with every path absolute; relative ones begin at `base`."""
    found = {}
    for name, each in plugins.items():
        paths = {key: anchored(value, base) for key, value in each if isinstance(value, Path)}
        found[name] = each.model_copy(update=paths)
    return found


def demand_installed(plugins: Mapping[str, PluginSettings]) -> None:
    """Raise `CompileError` if the settings name plugins, and the libraries that these need are not installed."""
    for each in plugins.values():
        for name in LIBRARIES:
            try:
                importlib.import_module(name)
            except ImportError:
                config = each.config if isinstance(each.config, PluginConfig) else PluginConfig()
                told = f"plugins need {name}, which is not installed"
                raise CompileError([config.problem((), told, "pip install 'holdfast[plugins]'")]) from None
        return


def files_of(plugins: Mapping[str, PluginSettings]) -> Iterator[Path]:
    """Yield the files on which the configuration of plugins depends: schemas, secrets, programs and certificates."""
    for each in plugins.values():
        yield each.schema
        yield from used_files(each)
        for key, value in each.config.items():
            if key.endswith(FILE) and isinstance(value, str) and value.startswith("/"):
                yield Path(value)


def used_files(settings: PluginSettings) -> Iterator[Path]:
    """Yield the files that a process or a connection uses from its start; they need not exist."""
    yield from (Path(word) for word in settings.command if word.startswith("/") and len(word) > 1)
    yield from (path for path in (settings.ca, settings.cert, settings.key) if path is not None)
