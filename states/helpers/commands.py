"""Calls that run programs: `cmd.run` and similar ones. They are off unless the settings enable `template_commands`.

Compiling must not change the host, and only
the author of a template knows what its commands do.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.resources.accounts import account
from holdfast.resources.context import PATH
from holdfast.resources.paths import own_home
from holdfast.states.helpers.table import looking
from holdfast.states.view.host_view import Forbidden, HostView

TIMEOUT = 30.0
"""Default limit for the duration of a command of a template, in seconds."""


def _run(
    view: HostView,
    cmd: str | list[str],
    *,
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    shell: str = "/bin/sh",
    env: Mapping[str, Any] | list[Mapping[str, Any]] | None = None,
    timeout: float | None = None,
    python_shell: bool = True,
    **_: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command and wait for its end. Raises `Forbidden` if templates may not run commands."""
    if not view.options.get("template_commands"):
        hint = "use a grain or the pillar, or a state with a guard; or allow it in agent.yaml: template_commands: true"
        raise Forbidden(f"templates may not run commands: {cmd}", hint)
    argv = cmd if isinstance(cmd, list) else [shell, "-c", cmd] if python_shell else shlex.split(cmd)
    named = {"LC_ALL": "C", **_variables(env)}
    if runas:
        argv, options = _as_user(runas, argv, cwd, named)
    else:
        options = {"cwd": cwd, "env": {**os.environ, "HOME": own_home(), **named}}
    try:
        return ended(argv, stdin or "", timeout or TIMEOUT, options)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"the command did not end within {timeout or TIMEOUT:g} s: {cmd}") from error


def _variables(env: Mapping[str, Any] | list[Mapping[str, Any]] | None) -> dict[str, str]:
    """Return the variables of a mapping, or of a list of mappings, as text."""
    given = [env] if isinstance(env, Mapping) else env or []
    return {key: str(value) for part in given for key, value in part.items()}


def ended(argv: list[str], stdin: str, timeout: float, options: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run an argument list to its end. Raises `subprocess.TimeoutExpired` after it has killed the process group.

    `subprocess.run` would kill only the command, and then wait for the processes that the command has started.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True, **options
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except BaseException:
            if process.returncode is None:  # not reaped yet, so the number still belongs to its group
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _as_user(user: str, argv: list[str], cwd: str | None, named: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    """Return a command that runs as another user, and its options: groups, environment; the user enters `cwd`.

    Raises `ValueError` for an unknown user.
    """
    who = account(user)
    if who is None:
        raise ValueError(f"there is no user {user}")
    options: dict[str, Any] = {
        "cwd": "/",
        "env": {"PATH": PATH, "LANG": "C.UTF-8", "HOME": who.home, "USER": who.name, "LOGNAME": who.name, **named},
    }
    if os.geteuid() == 0:
        options |= {"user": who.uid, "group": who.gid, "extra_groups": who.groups}
    enter = 'cd -- "$1" || exit; shift; exec "$@"' if cwd else 'cd -- "$1" 2>/dev/null; shift; exec "$@"'
    return ["/bin/sh", "-c", enter, "sh", cwd or who.home, *argv], options


def _all(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {
        "pid": 0,
        "retcode": done.returncode,
        "stdout": done.stdout.rstrip("\n"),
        "stderr": done.stderr.rstrip("\n"),
    }


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output and errors of a command, in the form of `cmd.run`."""
    return "\n".join(part for part in (done.stdout.rstrip("\n"), done.stderr.rstrip("\n")) if part)


def _command(*names: str, gives: Callable[[subprocess.CompletedProcess[str]], Any]) -> None:
    looking(*names)(lambda view, cmd, cwd=None, **options: gives(_run(view, cmd, cwd=cwd, **options)))


_command("cmd.run", "cmd.shell", gives=_said)
_command("cmd.run_stdout", gives=lambda done: done.stdout.rstrip("\n"))
_command("cmd.run_stderr", gives=lambda done: done.stderr.rstrip("\n"))
_command("cmd.retcode", gives=lambda done: done.returncode)
_command("cmd.run_all", gives=_all)


@looking("cmd.exec_code", "cmd.exec_code_all")
def exec_code(view: HostView, lang: str, code: str, **options: Any) -> str:
    """Return the output of a program text, run by an interpreter."""
    return _said(_run(view, [lang, "-c", code], **options))


@looking("cmd.script")
def script(view: HostView, source: str, args: str = "", **options: Any) -> dict[str, Any]:
    """Run a file of the tree."""
    if view.tree is None:
        raise ValueError("cannot run a file: there is no states directory")
    path: Path = view.tree.template(source)
    view.tree.demand_trusted(path)
    return _all(_run(view, [str(path), *shlex.split(args)], **options))
