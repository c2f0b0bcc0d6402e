"""Guards of real commands decide whether a command runs, or fail the run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from command_bench import Commands
from deadline import DEADLINE
from holdfast.agent.engine.model.events import Ran


@pytest.mark.parametrize("guard", ["onlyif", "unless"])
@pytest.mark.parametrize(
    ("command", "killer"),
    [
        ("kill -9 $$", "SIGKILL"),
        ("sh -c 'kill -9 $$'; exit $?", "SIGKILL"),
        ("exit 143", "SIGTERM"),
        ("kill -40 $$", "signal 40"),
    ],
)
async def test_a_killed_guard_is_an_error_not_a_decision(
    commands: Commands, guard: str, command: str, killer: str
) -> None:
    """It kills itself, or a signal ends a command of its shell.

    Nothing runs, and the comment names the command and the signal.
    """
    outcome = await commands.outcome({guard: [command]})

    assert (outcome.result, outcome.ran, commands.count()) == (False, True, 0)
    assert outcome.comment == f"cannot tell whether to run: the guard {command!r} was killed by {killer}"


@pytest.mark.parametrize("guard", ["onlyif", "unless"])
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"shell": "/bin/nonesuch"}, "/bin/nonesuch"),
        ({"cwd": "/nonesuch"}, "/nonesuch"),
        ({"runas": "nonesuch"}, "there is no such user"),
    ],
    ids=["shell", "cwd", "user"],
)
async def test_a_guard_that_cannot_start_is_an_error(
    commands: Commands, guard: str, options: dict[str, str], why: str
) -> None:
    """Its shell, its directory or its user does not exist."""
    outcome = await commands.outcome({guard: ["true"]}, **options)

    assert (outcome.result, commands.count()) == (False, 0)
    assert why in outcome.comment


@pytest.mark.parametrize("status", [1, 126, 127, 128, 160, 193, 255])
@pytest.mark.parametrize("guard", ["onlyif", "unless"])
async def test_every_other_exit_status_is_a_decision(commands: Commands, guard: str, status: int) -> None:
    """As in Salt, the statuses of a shell that cannot find or run a command are decisions, too."""
    outcome = await commands.outcome({guard: [f"exit {status}"]})

    assert (outcome.result, commands.count()) == (True, int(guard == "unless"))


async def test_a_path_of_creates_that_cannot_be_checked_is_an_error(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server that does not answer is an error.

    A path that cannot exist, because it is too long, does not exist.
    """
    assert (await commands.outcome({"creates": ["/" + "x" * 300]})).changed
    monkeypatch.setattr(
        "holdfast.resources.paths.exists", lambda path: (_ for _ in ()).throw(OSError(5, "Input/output error", path))
    )
    outcome = await commands.outcome({"creates": ["/net/made"]})

    assert (outcome.result, outcome.comment, commands.count()) == (False, "/net/made: Input/output error", 1)


async def test_guards_have_the_environment_of_the_command(commands: Commands) -> None:
    """The environment may have each of the forms of `env`."""
    for env in ({"A": "1"}, [{"A": 1}], ["A=1"], [{"A": False, "B": 0}, "A=1"]):
        outcome = await commands.outcome({"onlyif": ['[ "$A" = 1 ]']}, env=env)
        assert outcome.changed, env


@pytest.mark.parametrize("by", ["poll", "recheck"])
async def test_guards_run_at_each_poll_and_recheck(commands: Commands, tmp_path: Path, by: str) -> None:
    """A command whose work was undone runs again."""
    meta = {
        "onlyif": [f"test -e {tmp_path}/wanted", f"test ! -e {commands.runs}"],
        **({"poll": 0.05} if by == "poll" else {}),
    }
    async with commands.starting(commands.command(meta)) as engine:
        await engine.settle()
        assert commands.count() == 0
        (tmp_path / "wanted").touch()
        if by == "recheck":
            engine.recheck("recheck")
        async with asyncio.timeout(DEADLINE):
            await commands.until(
                lambda event: isinstance(event, Ran) and event.outcome.cause == by and event.outcome.changed
            )

        assert commands.count() == 1


async def test_a_killed_guard_is_tried_again(commands: Commands, tmp_path: Path) -> None:
    """Nothing has run yet, so another attempt is harmless. The machine may have been short of memory."""
    async with commands.starting(
        commands.command({"onlyif": [f"test -e {tmp_path}/calm || kill -9 $$"], "delay": 0.05})
    ) as engine:
        await engine.settle()
        assert not engine.converged
        (tmp_path / "calm").touch()
        async with asyncio.timeout(DEADLINE):
            await commands.until(lambda event: isinstance(event, Ran) and event.outcome.changed)

        assert commands.count() == 1
