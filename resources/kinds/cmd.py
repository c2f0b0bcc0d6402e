"""`cmd.run`, `cmd.wait`, `cmd.script`: commands, as the state writes them, in a shell."""

from __future__ import annotations

import json
import os
import posixpath
import re
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from signal import Signals
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources import paths
from holdfast.resources.accounts import account
from holdfast.resources.context import CUT, PATH, Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.errors import Overdue, Permanent
from holdfast.resources.fields import (
    Given,
    Owner,
    Paths,
    RootedPath,
    Texts,
    Variables,
    field,
    parse_list,
    parse_text,
    parse_umask,
    shaped,
)
from holdfast.resources.needs import Need, owned_by, programs
from holdfast.resources.registry import nearest
from holdfast.resources.traits import Drawn, Edgeable, FromSources, Reactive, Recvable, Refreshable, Sendable
from holdfast.resources.watches import either, lines

TRUE = frozenset({"yes", "true", "on", "1"})
HARMLESS = frozenset({"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH"})
"""Signals that stop or continue a process, or are ignored by default."""
COMBINED = "combined"
"""Both outputs in the order in which they were written; then there are no separate ones."""
WATCHED = 4096
"""Bytes kept of the output of a watching command."""
SHOWN = 80
"""Characters of a command that name it."""


def parse_env(value: object) -> object:
    """`env`: a mapping, a list of mappings, or a list of `NAME=VALUE`; false is an empty value."""
    merged: dict[str, str] = {}
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(item, str) and "=" in item:
            item = dict([item.split("=", 1)])  # noqa: PLW2901 - one form turned into the other
        if not isinstance(item, Mapping):
            raise ValueError(f"{item!r} is not a variable: write 'NAME: value'")  # noqa: TRY004 - pydantic reports only ValueError
        for name, text in item.items():
            if isinstance(text, (Mapping, list, tuple)):
                raise ValueError(f"the variable {name} must be text, not {text!r}")  # noqa: TRY004 - the same
            if not str(name) or "=" in str(name) or "\0" in f"{name}{text}":
                raise ValueError(
                    f"{name!r} cannot be a variable: its name has no '=', and neither it nor its value has a NUL character"
                )
            merged[str(name)] = "" if text is None or text is False else str(parse_text(text))
    return merged


def parse_statuses(value: object) -> object:
    """Numbers, one of which may stand for a list of one."""
    found = []
    for item in parse_list(value):  # type: ignore[attr-defined]
        if not re.fullmatch(r"-?\d{1,3}", str(item)) or not -64 <= int(str(item)) <= 255:
            raise ValueError(f"{item!r} is not an exit status: write a number from 0 to 255, or below 0 for a signal")
        found.append(int(str(item)))
    return tuple(found)


def demand_foreground(value: bool) -> bool:
    """For validators: refuse a command that is not waited for."""
    if value:
        raise ValueError("a command cannot run in the background: make it a service, or leave out bg")
    return value


def parse_signal(value: object) -> object:
    """The name of a signal, with or without SIG, or its number, as a name without SIG. Raises `ValueError` for one that there is not, or that ends nothing."""
    names = {str(each.value): each.name.removeprefix("SIG") for each in Signals}
    name = names.get(str(value), str(value).upper().removeprefix("SIG"))
    if name not in names.values():
        near = nearest(name, names.values())
        raise ValueError(
            f"{value!r} is not a signal: "
            + (f"did you mean {near}?" if near else "write a name like INT, TERM or QUIT")
        )
    if name in HARMLESS:
        raise ValueError(f"{value!r} does not end a command: write a signal like INT, TERM or QUIT")
    return name


class Command(Edgeable, Sendable, Recvable, Resource, Refreshable):
    """What all commands share. Guards (`onlyif`, `unless`, `creates`) are arguments of every state.

    A list of changes is always reported, for nothing is known of what a command does. Whether it is needed is said by
    guards; without any it is an action.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    exclusive: ClassVar[bool] = False
    later: ClassVar[frozenset[str]] = frozenset({"stop_signal"})
    sends: ClassVar[Mapping[str, type]] = {"stdout": str, "stderr": str, "combined": str, "retcode": int, "pid": int}
    instead: ClassVar[Mapping[str, frozenset[str]]] = {"combined": frozenset({"stdout", "stderr"})}
    ignored: ClassVar[Mapping[str, str]] = {
        "use_vt": "commands get no terminal",
        "password": "Windows only",
        "runas_password": "Windows only",
        "reset_system_locale": "commands always run in C.UTF-8, unless env says otherwise",
        "ignore_timeout": "a command that is timed out is killed",
        "output_encoding": "output is taken as UTF-8",
        "raise_err": "a failure is always reported",
        "clean_env": "the environment is always clean",
    }

    name: Given
    """The command; the ID of the state where it gives no name."""
    cwd: RootedPath | None = None
    """Directory to run in. Default: the home directory of the user that it runs as; / where there is none."""
    env: Annotated[
        dict[str, str] | None, BeforeValidator(lambda value: value if value is None else parse_env(value))
    ] = None
    """Variables added to a clean environment."""
    runas: Owner | None = None
    """User to run as. Default: the agent's."""
    group: Owner | None = None
    """Group to run as."""
    shell: Annotated[Given, shaped(r"/.*|[^/]+", "a shell: write its absolute path")] = "/bin/sh"
    """The shell that reads the command."""
    python_shell: bool = True
    """False: no shell; the command is split into words and run."""
    stdin: Annotated[str | None, BeforeValidator(parse_text)] = None
    """What the command reads."""
    timeout: float | None = field(None, gt=0)
    """Seconds after which it is ended, with all that it has started: a failure like any other, retried only where `retry` says so.

    All its descendants are found by a control group (the installed service), or by a subreaper of the command. Where /proc does not tell them, only its process group is
    ended, and what has called setsid escapes. What a service starts for it (systemd-run, at) always goes on.
    """
    stop_signal: Annotated[str, BeforeValidator(parse_signal)] = "TERM"
    """Signal by which it is asked to end, before it is killed half a second later: INT, SIGINT, or a number."""
    umask: Annotated[int | None, BeforeValidator(lambda value: value if value is None else parse_umask(value))] = None
    """Umask, octal digits."""
    stateful: bool | dict[str, Any] | tuple[dict[str, Any], ...] = False
    """The last line of its output says what it did: `changed=yes comment='...'`, or the same as JSON.

    `test_name: COMMAND` in place of true: without apply this command, which must change nothing, says what would be done.
    """
    success_retcodes: Annotated[tuple[int, ...], BeforeValidator(parse_statuses)] = ()
    """Exit statuses besides 0 that are no failure."""
    success_stdout: Texts = ()
    """A line of output that makes any status a success."""
    success_stderr: Texts = ()
    """The same for the error output."""
    hide_output: bool = False
    """Keep stdout and stderr out of reports and logs."""
    output_loglevel: str | None = None
    """`quiet` hides the output from reports and logs, as hide_output does; other values change nothing."""
    prepend_path: str | None = None
    """Directories put before PATH, separated by colons."""
    root: RootedPath | None = None
    """Directory to chroot into; needs root."""
    bg: Annotated[bool, AfterValidator(demand_foreground)] = False
    """Not waiting for commands is not supported: true is refused."""

    def needs(self) -> tuple[Need, ...]:
        """What it runs, where, and as whom."""
        if self.root:
            return ()  # all of its names mean something else in there
        where = (
            (Need("path", posixpath.normpath(self.cwd), above=True),) if self.cwd and self.cwd.startswith("/") else ()
        )
        return (*[Need("path", path) for path in programs(self.program())], *where, *owned_by(self.runas, self.group))

    def program(self) -> str:
        """The beginning of the command."""
        return self.name

    def action(self) -> bool:
        """It cannot tell whether it is needed; the guards of the state can."""
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Run it again."""
        return await self.execute(ctx, apply)

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Run it."""
        return await self.execute(ctx, apply)

    async def execute(self, ctx: Context, apply: bool) -> bool:
        """Run the command named by `name`, or say that it would run."""
        command = self.name if apply else self._rehearsal()
        if command is None:
            # As in Salt, where a stateful command may change something, and any other does.
            ctx.report.changes = {} if self.stateful else {"cmd": self.name}
            ctx.report.comment = f"would have run {self.name!r}"
            return False
        argv = (self.shell, "-c", command) if self.python_shell else program(command)
        return self.conclude(ctx, await self.start(ctx, command, *argv), command)

    def _rehearsal(self) -> str | None:
        """The command of a stateful one that only tells what would be done."""
        parts = self.stateful if isinstance(self.stateful, tuple) else (self.stateful,)
        return next((str(part["test_name"]) for part in parts if isinstance(part, dict) and "test_name" in part), None)

    async def start(self, ctx: Context, shown: str, *argv: str) -> Completed:
        """Run an argument list as the fields say; it is told of as `shown`. Raises `Permanent` or `Temporary` when it cannot be run, `Overdue` when it is timed out."""
        ctx.report.touched = True
        try:
            return await self.spawn(
                ctx,
                *argv,
                stdin=self.stdin,
                timeout=self.timeout,
                combined=COMBINED in ctx.report.wanted,
                shown=not self._hidden,
            )
        except Overdue:
            raise Overdue(f"{beginning(shown)!r} still ran after {self.timeout:g} s and was killed") from None

    async def spawn(self, ctx: Context, *argv: str, **options: Any) -> Completed:
        """Run an argument list with the environment, user, directory and umask that the fields say. Raises `Permanent` or `Temporary` when it cannot be run."""
        env = dict(self.env or {})
        if self.prepend_path:
            env["PATH"] = f"{self.prepend_path}:{env.get('PATH') or PATH}"
        if self.root:
            argv = ("chroot", self.root, *argv)
        return await ctx.run(
            *argv,
            cwd=self.cwd,
            env=env,
            user=self.runas,
            group=self.group,
            umask=self.umask,
            stop_signal=Signals[f"SIG{self.stop_signal}"],
            check=False,
            **options,
        )

    @property
    def _hidden(self) -> bool:
        """Whether nobody is to see what it writes."""
        return self.hide_output or self.output_loglevel == "quiet"

    def conclude(self, ctx: Context, done: Completed, shown: str) -> bool:
        """Report, publish and judge what a command did. Raises `Permanent` when it failed."""
        hidden = self._hidden
        out, err = done.stdout.rstrip("\n"), done.stderr.rstrip("\n")
        if done.truncated:
            out += f"\n{CUT}"
        outputs = {COMBINED: out} if COMBINED in ctx.report.wanted else {"stdout": out, "stderr": err}
        ctx.send(**outputs, retcode=done.retcode, pid=done.pid)
        ctx.report.changes = {
            "pid": done.pid,
            "retcode": done.retcode,
            "stdout": "" if hidden else out,
            "stderr": "" if hidden else err,
        }
        understood = not self.stateful or self._by_its_own_word(ctx, out)
        if not self._succeeded(done.retcode, out, out if COMBINED in ctx.report.wanted else err):
            raise Permanent(f"{shown!r} {ended(done.retcode)}" + ("" if hidden else last_line(err or out)))
        if not understood:
            raise Permanent(
                f"{self.name!r} is stateful, but the last line of its output is neither JSON nor changed=yes|no"
            )
        ctx.report.comment = ctx.report.comment or f"ran {shown!r}"
        return not ctx.report.changes

    def _succeeded(self, status: int, out: str, err: str) -> bool:
        return (
            status == 0
            or status in self.success_retcodes
            or any(line in out.splitlines() for line in self.success_stdout)
            or any(line in err.splitlines() for line in self.success_stderr)
        )

    def _by_its_own_word(self, ctx: Context, out: str) -> bool:
        """Report what a stateful command says in its last line, which is nothing changed if it is silent; whether that can be understood."""
        words = parse_verdict(out) if out.strip() else {}
        if words is None:
            return False
        changed = str(words.get("changed", "no")).lower() in TRUE
        ctx.report.comment = str(words.pop("comment", ""))
        ctx.report.changes = {**ctx.report.changes, **words} if changed else {}
        return True


def parse_verdict(out: str) -> dict[str, Any] | None:
    """The last line of output as a mapping; None when it is none."""
    line = next((line for line in reversed(out.splitlines()) if line.strip()), "")
    try:
        words = json.loads(line)
    except ValueError:
        try:
            words = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        except ValueError:
            return None
    return words if isinstance(words, dict) and words else None


def words_of(command: str) -> tuple[str, ...]:
    """A command split as a shell would. Raises `Permanent` for quotes without an end."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise Permanent(f"cannot split {command!r} into words: {error}") from None


def program(command: str) -> tuple[str, ...]:
    """A command to be run without a shell. Raises `Permanent` when its first word is missing, too."""
    words = words_of(command)
    if not words or not words[0]:
        raise Permanent(
            f"cannot run {command!r}: without a shell (python_shell: false) its first word must name a program"
        )
    return words


def ended(status: int) -> str:
    """How a command ended, in words."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def beginning(command: str) -> str:
    """As much of a command as names it."""
    return command if len(command) <= SHOWN else f"{command[: SHOWN - 1]}…"


def last_line(text: str) -> str:
    """The last thing a command said, as the end of a sentence."""
    lines = text.strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


class Active(Command, Reactive):
    """Commands that run by themselves, and again when something tells them to."""

    reaction: ClassVar[frozenset[str]] = frozenset({"watch_files", "watch_cmd"})

    watch_files: Paths = ()
    """Files and directories: the agent runs the command again as soon as one of them changes, its guards allowing.

    What changes while the agent does not run is not noticed; and `poll` takes the place of this.
    """
    watch_cmd: Given | None = field(None)
    """A command that goes on running: for each line that it writes the agent runs `name` again, its guards allowing.

    Lines that come faster are one event in a quarter of a second; a command that writes without end waits for the agent.
    It runs as the command itself does: in the shell, with its user, directory and environment. One that ends is started again, after growing waits;
    meanwhile the state is `unwatched`. It is ended, with all that it has started, when the state leaves or changes. `poll` takes the place of this.
    """

    def reacts(self) -> bool:
        """Whether the state names something to watch."""
        return bool(self.watch_files or self.watch_cmd)

    def watch(self, ctx: Context) -> Watch:
        """Changes of the files, and lines of the watching command."""
        files = [ctx.watch_path(*self.watch_files)] if self.watch_files else []
        command = [lines(partial(self._watching, ctx, self.watch_cmd))] if self.watch_cmd else []
        return either(*files, *command)

    async def _watching(self, ctx: Context, command: str, **hooks: Any) -> Completed:
        """Run the watching command until it ends."""
        argv = (self.shell, "-c", command) if self.python_shell else program(command)
        return await self.spawn(ctx, *argv, limit=WATCHED, **hooks)


class Run(Active, kind="cmd.run"):
    """A shell command.

    refresh the search index:
      cmd.run:
        - name: make -C /srv/search index
        - runas: search
        - creates: /srv/search/index.db
    """


class Wait(Command, kind="cmd.wait"):
    """A shell command that runs only when a state it watches has changed.

    newaliases:
      cmd.wait:
        - watch:
          - file: /etc/aliases
    """

    def action(self) -> bool:
        """By itself it does nothing."""
        return False

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Nothing."""
        ctx.report.comment = "waits for a change of what it watches"
        return True


class Script(FromSources, Active, kind="cmd.script"):
    """A script from the states directory or elsewhere, run with arguments.

    migrate:
      cmd.script:
        - source: salt://app/migrate.sh
        - args: --to 12
        - creates: /var/lib/app/migrated-12
    """

    name: Given
    """The URL of the script, or what it is called where `source` is given; the ID of the state where it gives no name."""
    source: str | None = None
    """URL of the script. Default: the name."""
    args: str = ""
    """Arguments, quoted as in a shell."""
    template: Literal["jinja"] | None = None
    """Render the script before it runs."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template where `context` has none."""

    def program(self) -> str:
        """The script, where it is on this host."""
        return (self.source or self.name).removeprefix("file://")

    def draws(self) -> tuple[Drawn, ...]:
        """The script: another content is another version of the state, and runs."""
        return (Drawn(self._parts()[0], template=self.template is not None),)

    def _parts(self) -> tuple[str, str]:
        """The URL of the script, and its arguments."""
        url, _, words = (self.source, "", self.args) if self.source else self.name.partition(" ")
        return url, words or self.args

    async def execute(self, ctx: Context, apply: bool) -> bool:
        """Fetch the script and run it. Raises `Permanent` when it cannot be had or fails."""
        url, words = self._parts()
        if not apply:
            ctx.report.comment = f"would have run the script {url}"
            return False
        user = await ctx.blocking(account, self.runas) if self.runas else None
        # What root executes, or renders, must be root's.
        script = await ctx.source(url, trusted=bool(self.template) or user is None or user.uid in paths.trusted_uids())
        if self.template:
            variables = {**(self.defaults or {}), **(self.context or {})}
            script = ctx.render(text_of(script, url), name=url, variables=variables).encode()
        # Another user cannot pass through the agent's own directory.
        place = written(script, "/tmp" if user else str(ctx.var_dir), user.uid if user and os.geteuid() == 0 else -1)  # noqa: S108 - random and exclusive
        try:
            done = await self.start(ctx, url, *interpreter(script, self.shell), place.path, *words_of(words))
        finally:
            with suppress(
                FileNotFoundError, IsADirectoryError
            ):  # a script may remove itself, and its user put a directory there
                place.unlink()
        return self.conclude(ctx, done, url)


def written(script: bytes, directory: str, uid: int) -> paths.Place:
    """Write a script where only this user (-1: the agent's own) can read it, and root. Until it is complete it is root's alone.

    Raises `OSError`, and `Unsafe` for a directory in which others could put something in its place.
    """
    place = paths.at(f"{directory}/holdfast-script-{secrets.token_hex(8)}")
    if place.directory.weak is not None:
        raise paths.Unsafe(f"cannot trust {place.path}: {place.directory.weak}")
    handle = place.create(0o500)
    try:
        handle.write(script)
        os.fchown(handle.fd, uid, -1)
    except BaseException:
        place.unlink()
        raise
    return place


def text_of(script: bytes, url: str) -> str:
    """A script as text. Raises `Permanent` when it is none."""
    try:
        return script.decode()
    except UnicodeDecodeError as error:
        raise Permanent(f"cannot render {url}: it is not UTF-8 text (byte {error.start})") from None


def interpreter(script: bytes, shell: str) -> tuple[str, ...]:
    """What runs a script: its own first line says; else the shell."""
    first = script.split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return (shell,)
    return tuple(first[2:].decode(errors="replace").strip().split(None, 1)) or (shell,)
