"""The agent's settings: `agent.yaml` as frozen models, each setting documented next to its default.

Relative paths in the file start at its directory. Mistakes are reported as in state files: all at once, each with file,
line and the nearest valid name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.kept_bounds import KeptBounds
from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.pubsub.topics import topic_part
from holdfast.agent.paths import CONFIG, STATE_DIR, anchored, default_socket, default_view_socket, read_settings
from holdfast.agent.plugins.plugin_settings import PluginSettings, anchored_plugins, placed
from holdfast.agent.plugins.shipped import completed
from holdfast.agent.publishing.mqtt_settings import MqttSettings
from holdfast.agent.settings_types import Group, Location, SettingsGroup
from holdfast.agent.shared.etcd_settings import EtcdSettings
from holdfast.resources.fields import field
from holdfast.resources.refusals import said
from holdfast.resources.secrets import Redactor
from holdfast.resources.spelling import nearest
from holdfast.states.codes import demand_warning
from holdfast.states.errors import CompileError, Problem
from holdfast.states.parse.marks import Document, Map, Spot, descend, plain
from holdfast.states.source.files import exists


class SettingsError(CompileError):
    """`agent.yaml` cannot be used; `problems` lists every mistake in it."""


class LogSettings(SettingsGroup):
    """What the agent logs, and how."""

    format: Literal["auto", "console", "json", "journal"] = "auto"
    """`auto`: journal fields under systemd, else lines for people, coloured on a terminal; `json`: one object a
    line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the lines that are logged. Unchanged resources are `debug`, except after an edit of states."""
    recent: int = Field(500, ge=0)
    """Lines kept in memory for `holdfast log`."""


class WatchSettings(SettingsGroup):
    """How changes are noticed. Times are in seconds."""

    settle: float = field(0.05, unit="seconds", ge=0)
    """Time without events after which the states are compiled again: editors and git write several files one by one."""
    settle_limit: float = field(1.0, unit="seconds", gt=0)
    """The longest wait for such a time without events."""
    rescan: float = field(60.0, unit="seconds", ge=1)
    """Period of a comparison of all files, which finds changes without an event."""
    backend: Literal["auto", "inotify", "fanotify"] = "auto"
    """How the kernel watches directories. `auto`: by inotify, and as root by fanotify where inotify refuses because a
    limit is reached; `inotify`: by inotify alone; `fanotify`: by fanotify, and by inotify where fanotify cannot watch.
    Read only when the agent starts."""
    programs: bool = False
    """Read each program that any process begins to execute, so that short-lived ones are named as the cause of a drift.
    Read only when the agent starts."""


class LintSettings(SettingsGroup):
    """What `holdfast check` reports."""

    ignore: tuple[str, ...] = ()
    """Codes of warnings to leave out everywhere; a comment `# holdfast: ignore CODE` does so in one place."""

    @field_validator("ignore")
    @classmethod
    def _known(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            demand_warning(code)
        return codes


class MetricsSettings(SettingsGroup):
    """Metrics for Prometheus. `holdfast metrics` always prints them; both of these settings are off by default."""

    listen: str | None = None
    """Address and port that serve GET /metrics, such as `127.0.0.1:9464`. There is no password: keep it on the
    loopback."""
    textfile: Location | None = None
    """File for node_exporter's textfile collector; its name ends in `.prom`."""
    period: float = field(15.0, unit="seconds", ge=1)
    """Seconds between two updates of that file."""

    @field_validator("listen")
    @classmethod
    def _address(cls, listen: str | None) -> str | None:
        if listen is not None:
            split_address(listen)
        return listen

    @field_validator("textfile")
    @classmethod
    def _collected(cls, textfile: Path | None) -> Path | None:
        if textfile is not None and textfile.suffix != ".prom":
            raise ValueError("the collector reads only files whose names end in .prom")
        return textfile


class RecordSettings(SettingsGroup):
    """Records of passes, changes and notes, and content that repairs replace. The oldest are removed first."""

    days: float = field(90.0, unit="days", gt=0)
    """Age at which a record is removed."""
    size: int = field(256, unit="MiB", ge=64)
    """Size of the database above which the oldest records are removed, or a quarter of its file system if that is less.
    Its log of recent writes takes up to 32 MiB."""
    kept_file: int = field(1, unit="MiB", ge=0, le=64)
    """Content that a repair replaces or removes is kept up to this size of one file; 0: none is kept."""
    kept: int = field(64, unit="MiB", ge=1)
    """Room for all kept content; the oldest is removed first."""


class Directories(SettingsGroup):
    """The directories of one environment."""

    states: Location
    """Directory of its state files."""
    pillar: Location | None = None
    """Directory of its pillar. Default: that of the agent."""


PackageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]
"""Name of a package of remote resources."""


class ToolName(str):
    """A tool that `providers` names, with its place. Providers are known only after the operator's own are loaded."""

    __slots__ = ("spot",)
    spot: Spot
    """Its place in agent.yaml."""

    @classmethod
    def at(cls, tool: str, spot: Spot) -> ToolName:
        """Return the name with its place."""
        name = cls(tool)
        name.spot = spot
        return name


class Settings(SettingsGroup):
    """All settings of one agent."""

    id: str | None = None
    """Name of this host, which top files match. Default: the fully qualified host name."""
    states: Location = Path("states")
    """Directory of the state files."""
    pillar: Location | None = Path("pillar")
    """Directory of the pillar: data for this host, separate from the states. None: no pillar."""
    environment: str = "base"
    """The environment of this host: only its section of the top files is used."""
    environments: dict[str, Group[Directories]] = Field(default_factory=dict)
    """Environment -> its directories, if they differ from the two above."""
    resources: Location = Path("resources")
    """Directory of kinds and providers of your own, one Python file each."""
    grains_file: Location | None = Path("grains")
    """A YAML file with a mapping of grains of your own; it may be missing. None: no file."""
    grains: dict[str, Any] = Field(default_factory=dict)
    """More grains of your own; they take precedence over `grains_file` and over the host's own grains."""
    state_dir: Location = STATE_DIR
    """Directory of the agent's state, kept across restarts and private to the agent."""
    control: Location | None = None
    """Control socket, for `holdfast status` and other verbs. Default: /run/holdfast/control.sock, or control.sock in a
    state_dir of your own."""
    view: Location | None = None
    """Socket for users who may look at the agent and change nothing. Default: /run/holdfast/view.sock, or no socket if
    `state_dir` or `control` is set."""
    viewers: Annotated[str, Field(min_length=1)] | None = "holdfast"
    """Group whose members are these users. None: only root may look, and there is no socket for others."""
    providers: dict[str, str] = Field(default_factory=dict)
    """Interface -> provider to use instead of the one that is chosen automatically (`{pkg: apt}`)."""
    plugins: dict[PackageName, Group[PluginSettings]] = Field(default_factory=dict)
    """Package -> the process that provides its resources (docs/plugins.md). A package of Holdfast itself (`postgres`)
    has its schema and command, so its settings may have its `config` alone."""
    interfaces: Literal["strict", "lenient"] = "strict"
    """What happens if a provider violates its interface (a signature, a missing field of a result, a function that does
    not apply): it is refused, or with `lenient` used without the function, or with an empty value, and a warning."""
    durable: bool = True
    """Flush each written file, and intents, to the disk first. Without it, a power cut may leave an old file or lose a
    refresh."""
    pillar_source_merging_strategy: Literal["smart", "recurse", "aggregate", "overwrite", "list", "none"] = "smart"
    """How pillar files are merged. `smart`, `recurse`: mapping by mapping; `overwrite`, `aggregate`: each value of
    the first level as a whole; `list`: two values of one key become a list of both; `none`: as `recurse`,
    lists always replaced."""
    pillar_merge_lists: bool = False
    """Join lists of the pillar instead of replacing them, also by `pillar.get(merge=True)`."""
    state_auto_order: bool = True
    """States are applied in the order in which they are written; without it, sorted by name."""
    disabled_requisites: tuple[str, ...] = ()
    """Requisites that have no effect, such as `listen`."""
    lenient: tuple[str, ...] = ()
    """Globs of SLS names: in these states, errors that Salt accepts are only warnings (`[nginx, nginx.*]`)."""
    nodegroups: dict[str, Any] = Field(default_factory=dict)
    """Name -> compound matcher, for `N@name` in top files."""
    salt_names: bool = False
    """Use Salt's name instead of Holdfast's in marks in crontabs, in the file of kernel parameters, and in banners."""
    template_commands: bool = False
    """Templates may run commands (`salt['cmd.run']`) with the privileges of the agent, whenever states are compiled."""
    log: Group[LogSettings] = Field(default_factory=LogSettings.model_construct)
    """What the agent logs, and how."""
    watch: Group[WatchSettings] = Field(default_factory=WatchSettings.model_construct)
    """How changes of the configuration are noticed."""
    metrics: Group[MetricsSettings] = Field(default_factory=MetricsSettings.model_construct)
    """Metrics for Prometheus."""
    records: Group[RecordSettings] = Field(default_factory=RecordSettings.model_construct)
    """The records that the agent keeps."""
    mqtt: Group[MqttSettings] = Field(default_factory=MqttSettings.model_construct)
    """The broker to which the agent publishes its presence, conditions, passes and changes."""
    etcd: Group[EtcdSettings] = Field(default_factory=EtcdSettings.model_construct)
    """The cluster in which hosts share strings."""
    lint: Group[LintSettings] = Field(default_factory=LintSettings.model_construct)
    """What `holdfast check` reports."""
    engine: Group[EngineOptions] = Field(default_factory=EngineOptions.model_construct)
    """When and how resources run."""

    @field_validator("plugins", mode="before")
    @classmethod
    def _packages_of_holdfast(cls, plugins: Any) -> Any:
        return completed(plugins)

    @property
    def socket(self) -> Path:
        """Where the control socket is."""
        return self.control if self.control is not None else default_socket(self.state_dir)

    @property
    def view_socket(self) -> Path | None:
        """Where the socket for viewers is; None: there is none."""
        if self.viewers is None:
            return None
        return self.view if self.view is not None else default_view_socket(self.state_dir, self.control)

    @property
    def kept_bounds(self) -> KeptBounds:
        """How much replaced content is kept."""
        return KeptBounds(self.records.kept_file << 20, self.records.kept << 20)

    @property
    def tree(self) -> str:
        """Identifies the states and the host: runs with equal trees manage the same resources."""
        return "\n".join(map(str, (self.states, self.pillar, self.environment, self.id)))


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None, *, optional: bool = False) -> Settings:
    """Read the settings; `overrides` (from the command line) take precedence over the file, unless they are None.

    Without a path, read /etc/holdfast/agent.yaml, which may be missing. With `optional`, a file that may not be read
    counts as missing, and so does the grains file beside it. Raises `SettingsError`.
    """
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    file = (path or CONFIG).absolute()
    if optional and os.geteuid() != 0 and not os.access(file, os.R_OK):
        return _anchored(Settings(**{"grains_file": None, **given}), file.parent)
    try:
        if path is None and not exists(file):
            return _in_environment(_anchored(Settings(**given), file.parent), Document(str(file), ""), given)
        document, values = read_settings(file)
    except CompileError as error:
        raise SettingsError(error.problems) from error
    try:
        settings = Settings.model_validate({**plain(values), **given})
    except ValidationError as error:
        redactor = Redactor(values)
        raise SettingsError(
            _problem(document, values, detail).redacted(redactor) for detail in error.errors()
        ) from None
    if settings.mqtt.url and settings.id is not None:
        _demand_topic_part(settings.id, document, values)
    tools = {
        name: ToolName.at(tool, Spot(document, descend(values, ("providers", name))))
        for name, tool in settings.providers.items()
    }
    settings = settings.model_copy(update={"providers": tools, "plugins": placed(settings.plugins, document, values)})
    return _in_environment(_anchored(settings, file.parent), document, given)


def split_address(text: str) -> tuple[str, int]:
    """Return the host and port of `127.0.0.1:9464` or `[::1]:9464`. Raises `ValueError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("write an address and a port, such as '127.0.0.1:9464'")
    return host, int(port)


def _anchored(settings: Settings, base: Path) -> Settings:
    """Return the same settings with every path absolute, those that were relative below `base`."""
    paths = {name: value for name, value in settings if isinstance(value, Path)}
    update: dict[str, Any] = {name: anchored(value, base) for name, value in paths.items()}
    update["plugins"] = anchored_plugins(settings.plugins, base)
    for name in ("metrics", "mqtt", "etcd"):
        group: SettingsGroup = getattr(settings, name)
        inner = {key: anchored(value, base) for key, value in group if isinstance(value, Path)}
        if inner:
            update[name] = group.model_copy(update=inner)
    return settings.model_copy(update=update)


def _demand_topic_part(id: str, document: Document, values: Map) -> None:
    """Raise `SettingsError` if the name of the host cannot be a part of the topics to which the agent publishes."""
    try:
        topic_part(id)
    except Invalid as error:
        text = f"the setting 'id' is wrong: {error}; it is a part of the topics of messages, because `mqtt` has a `url`"
        raise SettingsError([document.problem(descend(values, ("id",)), "wrong-setting", text)]) from None


def _in_environment(settings: Settings, document: Document, given: Mapping[str, Any]) -> Settings:
    """Return the same settings with the directories of the environment, except those `given` on the command line.

    Raises `SettingsError` for an environment that has none.
    """
    directories = settings.environments.get(settings.environment)
    if directories is None:
        if settings.environment == "base" or "states" in given:
            return settings
        near = nearest(settings.environment, ["base", *settings.environments])
        hint = (
            f"did you mean {near!r}?"
            if near
            else "name its directories: 'environments:', below it the name, and below that 'states:'"
        )
        raise SettingsError(
            [document.problem(None, "wrong-setting", f"there is no environment {settings.environment!r}", hint)]
        )
    base = Path(document.file).parent
    found = {"states": directories.states, "pillar": directories.pillar}
    update = {name: anchored(path, base) for name, path in found.items() if path is not None and name not in given}
    return settings.model_copy(update=update)


def _problem(document: Document, values: Map, detail: ErrorDetails) -> Problem:
    """Return one mistake that pydantic found, at its line."""
    path, where = detail["loc"], ".".join(str(step) for step in detail["loc"])
    mark = descend(values, path)
    if detail["type"] == "extra_forbidden":
        return document.problem(mark, "unknown-setting", f"there is no setting {where!r}", _hint(path))
    if detail["type"] == "missing":
        return document.problem(
            mark, "wrong-setting", f"the setting {'.'.join(map(str, path[:-1]))!r} lacks {path[-1]!r}"
        )
    found = "" if isinstance(detail["input"], Mapping) else f", not {detail['input']!r}"
    return document.problem(mark, "wrong-setting", f"the setting {where!r} is wrong: {said(detail)}{found}")


def _hint(path: Sequence[object]) -> str:
    """Return where a setting belongs that does not exist here; else the most similar one, or all of this group."""
    name, known = str(path[-1]), _names(Settings, path[:-1])
    groups = [group for group, _, setting in (each.rpartition(".") for each, _ in describe()) if setting == name]
    if groups and path[0] != "plugins":
        return "write it " + " or ".join(f"below '{group}:'" if group else "at the top level" for group in groups)
    if meant := nearest(name, known):
        return f"did you mean {meant!r}?"
    more = "; what the package declares is written below 'config:'" if path[0] == "plugins" else ""
    return f"known here: {', '.join(sorted(known))}{more}"


def _names(model: type[BaseModel], path: Sequence[object]) -> list[str]:
    """Return the names of the settings in the group that `path` leads to, through groups and mappings of groups."""
    kind: Any = model
    for step in path:
        kind = kind.model_fields[str(step)].annotation if _is_group(kind) else get_args(kind)[-1]
        kind = next((part for part in get_args(kind) if _is_group(part)), kind) if isinstance(kind, UnionType) else kind
    return list(kind.model_fields)


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def describe(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting by its dotted name, with its default, for a reference of the settings."""
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from describe(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info.get_default(call_default_factory=True)
