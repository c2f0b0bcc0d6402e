"""Salt's `cmd` functions, which run commands, for `module.run` alone.

Templates have functions of their own under these names, if the setting `template_commands` allows them. Unlike in Salt,
a command with a status other than 0 is a failure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from holdfast.resources.context import Completed
from holdfast.resources.execution.table import ExecutionHost, execution


async def _run(
    host: ExecutionHost, cmd: Any, cwd: str | None,
    stdin: str | None, runas: str | None, shell: str, python_shell: bool,
    env: Mapping[str, Any] | None, timeout: float | None, *, check: bool = True,
) -> Completed:  # fmt: skip
    if isinstance(cmd, list):
        argv = [str(word) for word in cmd]
    else:
        argv = [shell, "-c", str(cmd)] if python_shell else shlex.split(str(cmd))
    variables = {name: str(value) for name, value in (env or {}).items()}
    return await host.run(*argv, cwd=cwd, stdin=stdin, user=runas, env=variables, timeout=timeout, check=check)


@execution("cmd.run")
async def run(
    host: ExecutionHost, cmd: Any, cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    shell: str = "/bin/sh", python_shell: bool = True, env: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> str:  # fmt: skip
    """Run a command; the result is its output."""
    done = await _run(host, cmd, cwd, stdin, runas, shell, python_shell, env, timeout)
    return "\n".join(filter(None, (done.stdout.rstrip("\n"), done.stderr.rstrip("\n"))))


execution("cmd.shell")(run)


@execution("cmd.run_stdout")
async def run_stdout(
    host: ExecutionHost, cmd: Any, cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    shell: str = "/bin/sh", python_shell: bool = True, env: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> str:  # fmt: skip
    """Run a command; the result is its standard output."""
    return (await _run(host, cmd, cwd, stdin, runas, shell, python_shell, env, timeout)).stdout.rstrip("\n")


@execution("cmd.run_all")
async def run_all(
    host: ExecutionHost, cmd: Any, cwd: str | None = None, stdin: str | None = None, runas: str | None = None,
    shell: str = "/bin/sh", python_shell: bool = True, env: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a command; the result has its status and its outputs."""
    done = await _run(host, cmd, cwd, stdin, runas, shell, python_shell, env, timeout, check=False)
    outputs = {"stdout": done.stdout.rstrip("\n"), "stderr": done.stderr.rstrip("\n")}
    return {"pid": done.pid, "retcode": done.retcode, **outputs}
