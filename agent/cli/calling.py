"""The command line's side of `call`: through the running agent, or without one in this process."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli import call_results
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.cli.terminal import say
from holdfast.agent.control.client import NotListening, ask_until_stopped
from holdfast.agent.control.request import ControlRequest
from holdfast.agent.control.schema import ControlError

if TYPE_CHECKING:
    from holdfast.agent.settings import Settings

Answer = dict[str, Any]

EXITS = {
    "usage": ExitCode.USAGE,
    "missing": ExitCode.FAILED,
    "failed": ExitCode.FAILED,
    "timeout": ExitCode.TIMEOUT,
    "interrupted": ExitCode.INTERRUPTED,
}
"""Why a call has no result -> exit code."""
AGAIN, SELDOM = 0.1, 1.0
"""Seconds between the first two attempts to find a free place, and at most; each wait is twice as long as the last."""
TIMEOUT = 2.0
"""Seconds after which the command prints what the call waits for."""


def given(words: Collection[str]) -> Mapping[str, Any] | None:
    """Return the arguments on standard input if `-` is among the words.

    Raises `UsageError` for standard input that is not a JSON mapping, and for words that are not UTF-8.
    """
    for word in words:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise click.UsageError(f"{word!r} is not UTF-8")
    if "-" not in words:
        return None
    try:
        values = json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"standard input is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise click.UsageError("standard input must be a JSON mapping of arguments")
    return values


def answer(
    source: ConfigurationSource, request: ControlRequest, seconds: float | None, here: Callable[[Settings], Answer]
) -> Answer:
    """Return the answer to a call; wait while agent or lock are busy, at most about `seconds`.

    `here` makes the call in this process. Raises `ControlError` if the agent refuses or stops, and `CompileError` if
    the settings cannot be used.
    """
    began, told, pause = time.monotonic(), False, AGAIN
    while True:
        found = _attempt(source, request, seconds, here)
        if found.get("code") != "busy":
            return found
        waited = time.monotonic() - began
        if seconds is not None and waited >= seconds:
            return {**found, "code": "timeout"}
        if waited >= TIMEOUT and not told:
            told = True
            say(f"waiting: {found['error']}", err=True)
        time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads callers that came together
        pause = min(2 * pause, SELDOM)


def _attempt(
    source: ConfigurationSource, request: ControlRequest, seconds: float | None, here: Callable[[Settings], Answer]
) -> Answer:
    """Ask the agent, or make the call here if none listens."""
    try:
        found: Answer = ask_until_stopped(source.socket(), request, seconds)
    except NotListening:
        if os.geteuid() == 0:
            return here(source.settings())
        text = "cannot call functions without a running agent: only root may"
        raise ControlError(text, "not-permitted") from None
    except ControlError as error:
        if error.code == "busy":
            return {"error": str(error), "code": "busy"}
        raise
    return found


def show(answer: Answer, form: str, *, test: bool) -> None:
    """Print the answer; exit with the code of an error."""
    if "error" not in answer:
        if form == "json":
            print_json(answer["result"])
            return
        for line in call_results.lines(answer["result"], test=test):
            click.echo(line)
        if answer.get("managed_by") and not test:
            say(f"managed by {', '.join(answer['managed_by'])}: the agent restores what is declared", err=True)
        return
    if form == "json":
        print_json(answer)
    else:
        say(f"holdfast: {answer['error']}", err=True)
    raise click.exceptions.Exit(EXITS[answer["code"]])
