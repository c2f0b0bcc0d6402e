"""`call`: one function of an interface or a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.arguments import completed
from holdfast.agent.cli.options import SECONDS, ConfigurationSource, output, reports_problems, source
from holdfast.agent.control.request import ControlRequest, demand_span
from holdfast.agent.verbs import AGENT, verb

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.function_calls import CallRequest
    from holdfast.agent.running_agent import RunningAgent
    from holdfast.agent.settings import Settings


@dataclass(frozen=True)
class CallFunction(ControlRequest, verb="call"):
    """Call a function of an interface or a package. Any further byte on the connection stops the call."""

    function: str
    """Module and function: `pkg.list_installed`."""
    words: Sequence[str] = ()
    """Arguments as words of a command line."""
    given: Mapping[str, Any] | None = None
    """Arguments by name."""
    test: bool = False
    """Whether to change nothing and return what would be changed."""
    seconds: float | None = None
    """Time limit; by default none."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for an impossible time limit."""
        demand_span(self.seconds)

    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Return the result, or the reason why there is none, as a mapping."""
        return await agent.calls.serve(self._call(), client)

    def here(self, settings: Settings) -> dict[str, Any]:
        """Make the call in this process: the answer of an agent that would use these settings."""
        from holdfast.agent.local_calls import call_here

        return call_here(settings, self._call())

    def _call(self) -> CallRequest:
        from holdfast.agent.function_calls import CallRequest

        return CallRequest(self.function, self.words, self.given or {}, self.test, self.seconds)


@verb(AGENT)
@click.command()
@click.argument("function", metavar="MODULE.FUNCTION", shell_complete=completed("functions"))
@click.argument("words", metavar="[ARGUMENT|NAME=VALUE|-]...", nargs=-1)
@source("config", "state_dir")
@output("text", "json")
@click.option("--test", is_flag=True, help="Change nothing, and show what would be changed.")
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="End the call after this time (exit code 4).")
@reports_problems
def call(
    function: str, words: tuple[str, ...], source: ConfigurationSource, form: str, *, test: bool, timeout: float | None
) -> None:
    """Call one function of an interface or a package, such as `pkg.list_installed nginx`.

    `holdfast describe` lists the functions, `holdfast describe pkg` those of one module. Arguments are given in order
    or by name (`refresh=true`). The values of a parameter that takes several are further words, or are separated by
    commas (`names=nginx,curl`). Words that begin with [ or { are JSON. `-` reads a JSON mapping of arguments from
    standard input, so that a secret need not be on the command line. Secret results are masked.

    The running agent makes the call; only root may ask for it. A call that changes something waits until no resource
    that manages the same thing runs, and is logged with its caller. Without a running agent, root makes the call in a
    process of its own.

    Exit codes: 0 done; 1 the call failed, or this host does not have the function; 4 the time limit was
    reached (--timeout); 64 there is no such function, or its arguments are wrong; 77 not permitted.
    """
    from holdfast.agent.cli import calling

    request = CallFunction(function, [word for word in words if word != "-"], calling.given(words), test, timeout)
    calling.show(calling.answer(source, request, timeout, request.here), form, test=test)
