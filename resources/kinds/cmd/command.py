"""Base of the kinds of shell commands: how a command runs, what it reports, and what it watches."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import partial
from signal import Signals
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources.accumulators import TakingVariables
from holdfast.resources.context import CUT, PATH, Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.dependencies import Dependency, owned_by, programs
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Overdue, Permanent
from holdfast.resources.fields import Given, Owner, Paths, RootedPath, Texts, Umask, field, parse_text, shaped
from holdfast.resources.kinds._commands import (
    beginning,
    demand_foreground,
    ended,
    last_line,
    parse_env,
    parse_signal,
    parse_statuses,
    parse_verdict,
    program,
)
from holdfast.resources.traits import Edgeable, Reactive, Recvable, Refreshable, Sendable
from holdfast.resources.watches import either, lines

TRUE = frozenset({"yes", "true", "on", "1"})
COMBINED = "combined"
"""Key of both outputs in the order in which they were written; a state with this key cannot send them separately."""
WATCHED = 4096
"""Maximum size, in bytes, of the kept output of a watching command."""


class Command(TakingVariables, Edgeable, Sendable, Recvable, Resource, Refreshable):
    """Base of all commands. Guards (`onlyif`, `unless`, `creates`) are arguments of every state.

    A command always reports changes, because its effect is unknown. Only guards say whether a command is needed;
    without guards it is an action.
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("run",)
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
        "ignore_timeout": "a command that exceeds its timeout is killed",
        "output_encoding": "output is read as UTF-8",
        "raise_err": "a failure is always reported",
        "clean_env": "the environment is always clean",
    }

    name: Given
    """The command. Default: the ID of the state."""
    cwd: RootedPath | None = None
    """Directory to run in. Default: the home directory of the user, or / if there is none."""
    env: Annotated[dict[str, str], BeforeValidator(parse_env)] | None = None
    """Variables added to a clean environment."""
    runas: Owner | None = None
    """User to run as. Default: the agent's user."""
    group: Owner | None = None
    """Group to run as."""
    shell: Annotated[Given, shaped(r"/.*|[^/]+", "the absolute path of a shell")] = "/bin/sh"
    """The shell that reads the command."""
    python_shell: bool = True
    """False: split the command into words and run it without a shell."""
    stdin: Annotated[str | None, BeforeValidator(parse_text)] = None
    """Standard input of the command."""
    timeout: float | None = field(None, unit="seconds", gt=0)
    """Seconds after which the agent ends the command and all processes that it has started.

    The run then fails. It is retried only if `retry` is set.

    The agent finds the descendants by a control group (the installed service) or by a subreaper of the command. If
    /proc does not list them, it ends only the process group, and a process that has called setsid continues. A process
    that a service has started for the command (systemd-run, at) always continues.
    """
    stop_signal: Annotated[str, BeforeValidator(parse_signal)] = "TERM"
    """Signal that asks the command to end: INT, SIGINT, or a number. The command is killed half a second later."""
    umask: Umask | None = None
    """Umask as octal digits."""
    stateful: bool | dict[str, Any] | tuple[dict[str, Any], ...] = False
    """The last line of output says what the command did: `changed=yes comment='...'`, or the same as JSON.

    `test_name: COMMAND` instead of true: without apply, this command runs. It must change nothing and report what would
    be done.
    """
    success_retcodes: Annotated[tuple[int, ...], BeforeValidator(parse_statuses)] = ()
    """Exit statuses other than 0 that count as success."""
    success_stdout: Texts = ()
    """Lines of output that make any status a success."""
    success_stderr: Texts = ()
    """Lines of error output that make any status a success."""
    hide_output: bool = False
    """Keep stdout and stderr out of reports and logs."""
    output_loglevel: str | None = None
    """`quiet` hides the output from reports and logs, as hide_output does; other values have no effect."""
    prepend_path: str | None = None
    """Directories to put before PATH, separated by colons."""
    root: RootedPath | None = None
    """Directory to chroot into; needs root."""
    bg: Annotated[bool, AfterValidator(demand_foreground)] = False
    """Must be false: Holdfast does not run commands in the background."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the program, the directory, the user and the group."""
        if self.root:
            return ()  # names have another meaning inside the chroot
        where = (
            (Dependency("path", posixpath.normpath(self.cwd), above=True),)
            if self.cwd and self.cwd.startswith("/")
            else ()
        )
        return (
            *[Dependency("path", path) for path in programs(self.program())],
            *where,
            *owned_by(self.runas, self.group),
        )

    def program(self) -> str:
        """Return the part of the command that names its program."""
        return self.name

    def with_variables(self, variables: Mapping[str, str]) -> Mapping[str, Any]:
        """Return a copy with these variables in the environment; the state's own variables take precedence."""
        return {"env": {**variables, **(self.env or {})}}

    def action(self) -> bool:
        """Return True: only the guards of the state say whether the command is needed."""
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Run the command again."""
        return await self.execute(ctx, apply)

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Run the command."""
        return await self.execute(ctx, apply)

    async def execute(self, ctx: Context, apply: bool) -> bool:
        """Run the command in `name`, or report that it would run."""
        command = self.name if apply else self._rehearsal()
        if command is None:
            # As in Salt, a stateful command may change something, and any other command always does.
            ctx.report.changes = {} if self.stateful else {"cmd": self.name}
            ctx.report.did(Effect(("run",), repr(self.name)), applied=False)
            return False
        argv = (self.shell, "-c", command) if self.python_shell else program(command)
        return self.conclude(ctx, await self.start(ctx, command, *argv), command)

    def _rehearsal(self) -> str | None:
        """Return the test command of a stateful command, which only reports what would be done; None without one."""
        parts = self.stateful if isinstance(self.stateful, tuple) else (self.stateful,)
        return next((str(part["test_name"]) for part in parts if isinstance(part, dict) and "test_name" in part), None)

    async def start(self, ctx: Context, shown: str, *argv: str) -> Completed:
        """Run an argument list according to the fields; errors show `shown` instead.

        Raises `Permanent` or `Temporary` if it cannot be run, `Overdue` if it exceeds its timeout.
        """
        ctx.report.touched = True
        try:
            return await self.spawn(
                ctx,
                *argv,
                stdin=self.stdin,
                timeout=self.timeout,
                combined=COMBINED in ctx.assignment.wanted,
                shown=not self._hidden,
            )
        except Overdue:
            raise Overdue(f"{beginning(shown)!r} exceeded its timeout of {self.timeout:g} s and was killed") from None

    async def spawn(self, ctx: Context, *argv: str, **options: Any) -> Completed:
        """Run an argument list with the environment, user, directory and umask of the state.

        Raises `Permanent` or `Temporary` if it cannot be run.
        """
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
        """Whether the output is kept out of reports and logs."""
        return self.hide_output or self.output_loglevel == "quiet"

    def conclude(self, ctx: Context, done: Completed, shown: str) -> bool:
        """Report and publish the result of a command. Raises `Permanent` if the command failed.

        Returns whether nothing was changed.
        """
        hidden = self._hidden
        out, err = done.stdout.rstrip("\n"), done.stderr.rstrip("\n")
        if done.truncated:
            out += f"\n{CUT}"
        outputs = {COMBINED: out} if COMBINED in ctx.assignment.wanted else {"stdout": out, "stderr": err}
        ctx.send(**outputs, retcode=done.retcode, pid=done.pid)
        told = {"stdout": "", "stderr": ""} if hidden else {"stdout": out, "stderr": err}
        ctx.report.changes = {"pid": done.pid, "retcode": done.retcode, **told}
        understood = not self.stateful or self._by_its_own_word(ctx, out)
        if not self._succeeded(done.retcode, out, out if COMBINED in ctx.assignment.wanted else err):
            raise Permanent(f"{shown!r} {ended(done.retcode)}" + ("" if hidden else last_line(err or out)))
        if not understood:
            raise Permanent(
                f"{self.name!r} is stateful, but the last line of its output is neither JSON nor changed=yes|no"
            )
        own = ctx.report.comment
        ctx.report.did(Effect(("run",), repr(shown)), applied=True)
        ctx.report.comment = own or ctx.report.comment
        return not ctx.report.changes

    def _succeeded(self, status: int, out: str, err: str) -> bool:
        return (
            status == 0
            or status in self.success_retcodes
            or any(line in out.splitlines() for line in self.success_stdout)
            or any(line in err.splitlines() for line in self.success_stderr)
        )

    def _by_its_own_word(self, ctx: Context, out: str) -> bool:
        """Report the result from the last line of a stateful command; no output means no change.

        Returns whether the line can be parsed.
        """
        words = parse_verdict(out) if out.strip() else {}
        if words is None:
            return False
        changed = str(words.get("changed", "no")).lower() in TRUE
        ctx.report.comment = str(words.pop("comment", ""))
        ctx.report.changes = {**ctx.report.changes, **words} if changed else {}
        return True


class Active(Command, Reactive):
    """Commands that run on their own, and again at each event of the files or the command that they watch."""

    reaction: ClassVar[frozenset[str]] = frozenset({"watch_files", "watch_cmd"})

    watch_files: Paths = ()
    """Files and directories: when one of them changes, the agent runs the command again if the guards allow it.

    Changes while the agent is stopped are not noticed. `poll` replaces this watch.
    """
    watch_cmd: Given | None = field(None)
    """A command that keeps running: for each line that it writes, the agent runs `name` again if the guards allow it.

    Lines within a quarter of a second are one event. A command that writes faster has to wait for the agent. The
    watching command runs like the command itself: in the shell, with its user, directory and environment. If it ends,
    the agent starts it again after growing delays; meanwhile the state is `unwatched`. When the state is removed or
    changed, the agent ends the watching command and all processes that it has started. `poll` replaces this watch.
    """

    def reacts(self) -> bool:
        """Return whether the state declares something to watch."""
        return bool(self.watch_files or self.watch_cmd)

    def watch(self, ctx: Context) -> Watch:
        """Watch the files and the lines of the watching command."""
        files = [ctx.watch_path(*self.watch_files)] if self.watch_files else []
        command = [lines(partial(self._watching, ctx, self.watch_cmd))] if self.watch_cmd else []
        return either(*files, *command)

    async def _watching(self, ctx: Context, command: str, **hooks: Any) -> Completed:
        """Run the watching command until it ends."""
        argv = (self.shell, "-c", command) if self.python_shell else program(command)
        return await self.spawn(ctx, *argv, limit=WATCHED, **hooks)
