"""Options that verbs share, and their results: settings, grains, output."""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.phrases import number_of

if TYPE_CHECKING:
    from holdfast.agent.settings import Settings
    from holdfast.states.errors import CompileError

_PATH = click.Path(path_type=Path, readable=False)
"""A path that click does not check: a client of the agent need not be able to read its directory."""

LAST = 30e9
"""A Unix time after all times that can be requested."""
Function = Callable[..., Any]


class Number(click.ParamType):  # type: ignore[type-arg] # older versions of click have no argument there
    """A number with plain error messages; `parse` raises `ValueError` for invalid text."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number in a word."""
        try:
            return self._parse(str(value))
        except ValueError:
            self.fail(f"{value!r} is not {self.name}", param, ctx)


def some(text: str) -> float:
    """Return a number above 0. Raises `ValueError`."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def count(text: str) -> int:
    """Return a whole number, 0 or more. Raises `ValueError`."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def span(text: str) -> float:
    """Return the seconds of `90`, `90s`, `30m`, `2h`, `1h30m`, `3d` or `1w`. Raises `ValueError`."""
    units = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
    if text.isascii() and text.isdigit():
        return some(text)
    found = re.fullmatch("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in units), text.strip().lower(), re.ASCII)
    if found is None:
        raise ValueError(text)
    seconds = some(
        str(sum(float(number) * size for number, size in zip(found.groups(default="0"), units.values(), strict=True)))
    )
    from holdfast.agent.control.schema import FOREVER

    if seconds >= FOREVER:
        raise ValueError(text)
    return seconds


def moment(text: str) -> float:
    """Return the Unix time of a span ago (`2h`), or of a local date or time. Raises `ValueError`.

    `2026-11-23`, `2026-11-23 20:15:03` or `20:15` of today; a time may have an offset (`+01:00`).
    """
    from datetime import date, datetime

    if re.fullmatch(r"\d{1,2}:\d\d(:\d\d)?", text, re.ASCII):
        hour, _, rest = text.partition(":")
        text = f"{date.today().isoformat()} {hour:0>2}:{rest}"  # noqa: DTZ011 - the user's own day
    elif not re.match(r"\d{4}-", text, re.ASCII):
        return time.time() - span(text)
    at = datetime.fromisoformat(text).timestamp()
    if not 0 <= at < LAST:
        raise ValueError(text)
    return at


SPAN = Number("a span of time: 90s, 30m, 2h, 1h30m or 3d", span)
MOMENT = Number("a span before now (2h) or a time (20:15, 2026-11-23, '2026-11-23 20:15')", moment)
SECONDS = Number("a number of seconds above 0", some)
COUNT = Number("a whole number, 0 or more", count)


class ConfigurationSource(NamedTuple):
    """The configuration that a verb works on."""

    config: Path | None = None
    states: Path | None = None
    pillar: Path | None = None
    state_dir: Path | None = None
    grains: Path | None = None
    id: str | None = None
    environment: str | None = None
    lenient: tuple[str, ...] = ()

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings from the command line, instead of agent.yaml."""
        paths = {"states": self.states, "pillar": self.pillar, "state_dir": self.state_dir}
        words = {"id": self.id, "environment": self.environment}
        return {**{name: path and path.absolute() for name, path in paths.items()}, **words}

    def kinds(self) -> Settings:
        """Return the settings that say which kinds there are. Raises `CompileError`.

        Without --config, settings that the user may not read are ignored.
        """
        from holdfast.agent.settings import load

        return load(self.config, self.overrides, optional=self.config is None)

    def settings(self) -> Settings:
        """Return the settings, overridden by the command line.

        Raises `CompileError`, also for a missing --pillar directory.
        Patterns of --lenient are added to those of the settings; a pattern that matches no state file is reported.

        If --states is given without --config and --pillar, the host's pillar is not used, for every user.
        Settings of the host that the user may not read are then not needed.
        """
        from holdfast.resources.paths import trusted_uids
        from holdfast.states.source.files import Tree, exists
        from holdfast.states.source.refusals import refuse

        if self.pillar is not None and not (exists(self.pillar) and self.pillar.is_dir()):
            raise refuse(
                self.pillar, "source-unreadable", "it is not a directory", "make it, or name another with --pillar"
            )
        settings = self._loaded()
        if not self.lenient:
            return settings
        tree = Tree(settings.states, trusted_uids())
        for pattern in self.lenient:
            if exists(settings.states) and not tree.match(pattern):
                click.echo(
                    f"--lenient {pattern}: no state file has such a name; "
                    "write names as in top files: nginx, 'nginx.*'",
                    err=True,
                )
        return settings.model_copy(update={"lenient": (*settings.lenient, *self.lenient)})

    def _loaded(self) -> Settings:
        """Return the settings without the additions of the command line. Raises `CompileError`."""
        from holdfast.agent.settings import load

        if self.states is None or self.config is not None or self.pillar is not None:
            return load(self.config, self.overrides)
        settings = load(None, self.overrides, optional=True)
        if settings.pillar is not None and _may_be_there(settings.pillar):
            click.echo("--states alone: without the pillar of this host (--pillar DIR names one)", err=True)
        return settings.model_copy(update={"pillar": None})

    def names(self, sls: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
        """Return the names of the state files; a file below the states directory may also be given by its path."""
        root = settings.states.resolve()
        return tuple(_sls_of(word, root) or word for word in sls)

    def socket(self) -> Path:
        """Return the running agent's control socket. Raises `CompileError`."""
        from holdfast.agent.paths import socket_of

        return socket_of(self.config, self.overrides)

    def view(self) -> Path:
        """Return the socket for requests that only look: that for viewers if the user may open it and not the other.

        Raises `CompileError`.
        """
        import os

        from holdfast.agent.paths import sockets_of

        control, view = sockets_of(self.config, self.overrides)
        looks_only = view is not None and not os.access(control, os.W_OK) and os.access(view, os.W_OK)
        return view if view is not None and looks_only else control

    def records(self) -> Path:
        """Return the path of the records of this host. Raises `CompileError`."""
        from holdfast.agent.paths import RECORDS, state_dir_of

        return state_dir_of(self.config, self.overrides) / RECORDS

    def facts(self, settings: Settings) -> Mapping[str, Any] | None:
        """Return another host's grains, if a file was given. Raises `CompileError`."""
        from holdfast.agent.facts import stand_in

        return None if self.grains is None else stand_in(self.grains.absolute(), settings)


def _may_be_there(path: Path) -> bool:
    """Return whether a directory exists, or its existence is unknown."""
    try:
        return path.exists()
    except OSError:
        return True


def _sls_of(word: str, root: Path) -> str | None:
    """Return the name of a state file given by its path (relative to the working or states directory).

    None for others.
    """
    from holdfast.states.source.files import sls_name

    if not word.endswith(".sls"):
        return None
    for path in (Path(word), root / word):
        try:
            whole = path.parent.resolve() / path.name
            if whole.is_relative_to(root) and whole.is_file():
                return sls_name(str(whole.relative_to(root)))
        except OSError:  # a name that is too long, or a loop of links
            continue
    return None


def _shared(*words: str, **attributes: Any) -> Callable[[Function], Function]:
    """Return an option as a decorator that adds the same object to each verb.

    The agent imports all verbs. With an object for each, their options would take a quarter of a megabyte more.
    """
    option = click.Option(words, **attributes)
    made = cast("type[click.Option]", lambda *_, **__: option)  # click only calls it
    return click.option(*words, cls=made)


_OPTIONS = {
    "config": _shared(
        "--config",
        type=_PATH,
        envvar="HOLDFAST_CONFIG",
        metavar="FILE",
        help="Settings file; default: $HOLDFAST_CONFIG, or else /etc/holdfast/agent.yaml.",
    ),
    "states": _shared(
        "--states",
        type=_PATH,
        metavar="DIR",
        help="Directory of the state files; without --config and --pillar, no pillar is used.",
    ),
    "pillar": _shared("--pillar", type=_PATH, metavar="DIR", help="Directory of the pillar."),
    "state_dir": _shared("--state-dir", type=_PATH, metavar="DIR", help="State directory of the agent."),
    "grains": _shared(
        "--grains",
        type=_PATH,
        metavar="FILE",
        help="Use the grains in this file (YAML or JSON) instead of this host's.",
    ),
    "environment": _shared("--environment", metavar="NAME", help="Use the states and the pillar of this environment."),
    "lenient": _shared(
        "--lenient",
        multiple=True,
        metavar="PATTERN",
        help="In states whose SLS matches, only warn about mistakes that Salt accepts; may be repeated.",
    ),
    "id": _shared("--id", metavar="NAME", help="Use this name of the host instead of its own."),
}
"""Field of `ConfigurationSource` -> the option that gives it."""


def source(*names: str) -> Callable[[Function], Function]:
    """Add options to a verb, which gets them as one `source`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(**values: Any) -> Any:
            given = {name: values.pop(name) for name in names}
            return function(source=ConfigurationSource(**given), **values)

        decorated: Function = wrapper
        for name in reversed(names):
            decorated = _OPTIONS[name](decorated)
        return decorated

    return decorate


root = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    metavar="DIR",
    help="Change the system below this directory; no service is started or stopped.",
)
"""The option of verbs that change an installation."""


@functools.cache
def output(*forms: str) -> Callable[[Function], Function]:
    """Add `--format` with these choices; the first is the default."""
    form = click.Choice(forms)
    return _shared("--format", "form", type=form, default=forms[0], show_default=True, help="Output format.")


def reports_problems(function: Function) -> Function:
    """Make a verb report compile errors in the requested format and exit with code 3."""

    @functools.wraps(function)
    def wrapper(**values: Any) -> Any:
        from holdfast.states.errors import CompileError

        try:
            return function(**values)
        except CompileError as error:
            if values.get("form") == "json":
                print_json({"errors": [problem.as_dict() for problem in error.problems]})
            else:
                complain(error)
            raise click.exceptions.Exit(ExitCode.UNUSABLE) from error

    return wrapper


def complain(error: CompileError) -> None:
    """Print errors on stderr."""
    from holdfast.agent.cli.terminal import say

    for problem in error.problems:
        say(str(problem), err=True)
    say(f"{number_of(len(error.problems), 'problem')}; nothing was done", err=True)


def print_json(value: Any) -> None:
    """Print a JSON document on stdout; values without a JSON form (dates) become text."""
    click.echo(json.dumps(value, indent=1, default=str))


def print_rows(value: dict[str, Any], name: str, rows: Sequence[Any]) -> None:
    """Print a JSON mapping with many rows under one more key on stdout.

    Each row is one line, because indented rows would take three times as long.
    """
    head = json.dumps(value, indent=1, default=str).removesuffix("\n}")
    encode = json.JSONEncoder(default=str).encode  # `json.dumps` would make an encoder for each row
    lines = ",".join([f"\n  {encode(row)}" for row in rows])
    click.echo(f'{head},\n "{name}": [{lines}\n ]\n}}')
