"""Calls of functions of interfaces, as `holdfast call` makes them: in the running agent, or in a process of their own.

A call is prepared (provider, arguments), waits for its claim if it changes something, runs, and is recorded. Its answer
is a mapping ready for JSON with secrets masked: `result`, or `error` with its `code`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from holdfast.agent.host.blocking import Blocking, Threads, counted
from holdfast.agent.host.interfaces import Interfaces
from holdfast.resources.contract import Uid
from holdfast.resources.errors import RAISED, HoldfastError, Permanent
from holdfast.resources.interfaces import arguments
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.errors import ArgumentError, FunctionNotFound
from holdfast.resources.interfaces.registry import serving
from holdfast.resources.interfaces.results import ChangeSet, Result
from holdfast.resources.interfaces.signatures import parameters
from holdfast.resources.secrets import MASK, Redactor

if TYPE_CHECKING:
    from holdfast.agent.plugins.plugins import Plugins

Code = Literal["usage", "missing", "failed", "timeout", "interrupted", "busy"]
"""Why a call has no result.

`usage`: function or arguments do not exist; `missing`: the function is not implemented or not supported on this host;
`busy`: nothing was done, and the same call may succeed later.
"""


class CallRequest(NamedTuple):
    """The request of a caller."""

    function: str
    """`pkg.install`."""
    words: Sequence[str] = ()
    """Arguments as words: `nginx`, `refresh=true`."""
    given: Mapping[str, Any] = {}
    """Arguments from JSON."""
    test: bool = False
    """Change nothing, and return what would be changed."""
    timeout: float | None = None
    """Seconds."""


class CallRecord(NamedTuple):
    """A call that has ended."""

    call: str
    """Function and arguments, with secrets masked."""
    function: str
    outcome: str
    """`done`, or the code of the error."""
    text: str
    """The changes, or why the call failed, as text; may be empty."""
    duration: float
    """Seconds, with the time that the call waited for its claim."""
    changed: frozenset[Uid]
    """Uids of the things that the call may have changed."""


class CallHost(Protocol):
    """The part of `LocalHost` that calls use."""

    interfaces: Interfaces
    blocking: Blocking

    @property
    def plugins(self) -> Plugins | None:
        """The plugins; None if there are none."""


Call = tuple[Callable[[], Awaitable[Any]], Callable[[Any], Any]]
"""Makes a call, and masks the secrets of its result."""
ClaimThings = Callable[[Collection[Uid]], AbstractAsyncContextManager[None]]
"""Returns the context in which a call may change these things."""


class Remainder(NamedTuple):
    """The remainder of a call that has ended: a synchronous function that still changes something in its thread."""

    threads: Threads
    claims: AsyncExitStack
    """Still holds the claim of the call."""

    async def end(self) -> None:
        """Wait until the function has ended, and then release the claim; a cancellation releases the claim at once."""
        async with self.claims:
            await self.threads.end()


class CallRefused(Exception):
    """A call without a result."""

    def __init__(self, code: Code, text: str, **fields: str) -> None:
        super().__init__(text)
        self.answer: dict[str, Any] = {"error": text, "code": code, **fields}


class FunctionCall:
    """One call."""

    def __init__(self, request: CallRequest, host: CallHost, claim: ClaimThings, remains: str) -> None:
        """`remains` is the text for messages about a change that continues in a thread after its call has ended."""
        self._request, self._host, self._claim, self._remains = request, host, claim, remains
        self.changing = False
        """Whether the call is making a change: it should not be abandoned then."""
        self.remainder: Remainder | None = None
        """Set if the call was ended during a change that cannot be interrupted."""
        self._things: frozenset[Uid] = frozenset()
        self._shown = request.function
        self._redactor = Redactor()

    async def run(self) -> tuple[dict[str, Any], CallRecord]:
        """Return the answer and the record. An error is an answer, too; only a cancellation is raised."""
        began = time.monotonic()
        try:
            answer = {"result": await self._result()}
        except CallRefused as refused:
            answer = self._redactor(refused.answer)
        except RAISED as error:  # the code of a provider may raise anything
            text = f"internal error in {self._request.function}: {type(error).__name__}: {error}"
            answer = self._redactor({"error": text, "code": "failed"})
        return answer, self._record(answer, time.monotonic() - began)

    def interrupted(self, duration: float) -> tuple[dict[str, Any], CallRecord]:
        """Return the answer and the record of a call that was cancelled after so many seconds."""
        answer = {"error": f"{self._request.function} was interrupted{self._left()}", "code": "interrupted"}
        return answer, self._record(answer, duration)

    def _record(self, answer: Mapping[str, Any], duration: float) -> CallRecord:
        text = answer.get("error") or summary(answer["result"], test=self._request.test)
        return CallRecord(self._shown, self._request.function, answer.get("code", "done"), text, duration, self._things)

    async def _result(self) -> Any:
        """Return the result with secrets masked. Raises `CallRefused`."""
        request = self._request
        make, shown = self._of_package() or self._of_interface()
        try:
            async with asyncio.timeout(request.timeout) as limit:
                async with self._at_work():
                    result = await make()
        except CallRefused:
            raise
        except ArgumentError as error:
            raise CallRefused("usage", str(error)) from error
        except TimeoutError as error:
            if limit.expired():
                text = f"{request.function} did not end within {request.timeout:g} s{self._left()}"
                raise CallRefused("timeout", text) from None
            raise CallRefused("failed", str(error) or "timed out") from error
        except HoldfastError as error:
            made = f"; changed before: {', '.join(error.changes)}" if error.changes else ""
            raise CallRefused("failed", f"{error}{made}") from error
        except OSError as error:
            raise CallRefused("failed", str(error)) from error
        return shown(result)

    def _of_interface(self) -> Call:
        """Return the call of a function of an interface. Raises `CallRefused`."""
        bound, call, given = self._prepared()
        return partial(self._made, bound, call, given), partial(self._masked, bound)

    def _of_package(self) -> Call | None:
        """Return the call of a function of a package; None if the module is no package. Raises `CallRefused`."""
        request, plugins = self._request, self._host.plugins
        package = request.function.partition(".")[0].partition("-")[0]
        if plugins is None or package not in plugins.names:
            return None
        from holdfast.agent.plugins.functions import PackageFunction  # noqa: PLC0415 - few calls need these
        from holdfast.agent.plugins.masking import redactor_of, texts_of  # noqa: PLC0415 - the same

        if request.test:
            raise CallRefused("usage", f"cannot call {request.function} with --test: a package's function has no test")
        try:
            function = PackageFunction.find(request.function, plugins.get(package))
            values = function.bind(request.words, request.given)
        except ArgumentError as error:
            raise CallRefused("usage", str(error)) from error
        self._redactor = redactor_of(texts_of(values))
        words = (f"{name}={_written(arguments.brief(value))}" for name, value in function.shown(values).items())
        self._shown = " ".join([request.function, *words])
        self._things = frozenset({("package", package)})  # whether it changes something is unknown
        return partial(function.call, values, request.timeout), self._redactor

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        """Hold the claim of a call that changes something, beyond the body if a thread continues the change."""
        if not self._things:
            yield
            return
        async with AsyncExitStack() as claims:
            await claims.enter_async_context(self._claim(self._things))
            self.changing = True
            try:
                with counted() as threads:
                    yield
            finally:
                self.changing = False
                if threads.busy:
                    self.remainder = Remainder(threads, claims.pop_all())

    def _masked(self, bound: Bound, result: Any) -> Any:
        """Return a result as plain data with secrets masked.

        The mapping that a function of an interface returns, and that of its changes, have names of things as keys: the
        package `passwd` is no secret.
        """
        shown, name = arguments.shown(result), self._request.function.partition(".")[2]
        if not bound.promises(name):
            return self._redactor.masked(shown)
        if isinstance(result, ChangeSet):
            return {**self._redactor.masked(shown), "changes": self._redactor.named(shown["changes"])}
        return self._redactor.masked(shown) if isinstance(result, Result) else self._redactor.named(shown)

    def _left(self) -> str:
        return f"; {self._remains}" if self.remainder else ""

    async def _made(self, bound: Bound, call: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        """Make the call. A function that the interface does not declare may block: it runs in a thread."""
        name = self._request.function.partition(".")[2]
        declared = name in bound.interface.functions() or inspect.iscoroutinefunction(bound.declaration(name))
        answer = call(**given) if declared else await self._host.blocking(partial(call, **given))
        if inspect.isawaitable(answer):
            return await answer
        if hasattr(answer, "__aiter__"):
            raise Permanent(f"cannot call {self._request.function}: it reports events until it is ended")
        return answer

    def _prepared(self) -> tuple[Bound, Callable[..., Any], dict[str, Any]]:
        """Return provider, function and arguments. Raises `CallRefused`."""
        request = self._request
        module, _, name = request.function.partition(".")
        if not name:
            raise CallRefused(
                "usage", f"cannot call {request.function}: write MODULE.FUNCTION, as in pkg.list_installed"
            )
        try:
            interface, tool = serving(module)
        except Permanent as error:
            raise self._unknown(error) from error
        try:
            bound: Any = self._host.interfaces.get(interface, tool)
        except HoldfastError as error:
            raise CallRefused("missing", str(error)) from error
        self._demand(bound, name)
        try:
            call = bound.function(name, caller="holdfast call")
            declared = bound.declaration(name)
            signature = arguments.Signature(request.function, declared)
            given = signature.bind(request.words, request.given)
            given |= self._test(declared, changing=bound.changes(name))
        except FunctionNotFound as error:
            raise self._unknown(error) from error
        except ArgumentError as error:
            raise CallRefused("usage", str(error)) from error
        self._note(signature, given)
        if bound.changes(name) and not given.get("test"):
            self._things = arguments.things(interface, tool, given)
        return bound, call, given

    def _unknown(self, error: HoldfastError) -> CallRefused:
        """Return the refusal of an unknown function. For a name of Salt's, it names the functions that replace it."""
        from holdfast.resources.execution import table  # noqa: PLC0415 - only for an error

        function = self._request.function
        salt = table.find(function)
        if salt is None or salt.interface is None:
            return CallRefused("usage", str(error))
        names = ", ".join(f"{salt.interface.module}.{name}" for name in salt.uses)
        text = f"cannot call {function}: only states and templates use this name of Salt's; call {names}"
        return CallRefused("usage", text)

    def _demand(self, bound: Bound, name: str) -> None:
        """Raise `CallRefused` for a function that this host lacks, with its state by the table."""
        entry = bound.entry(name)
        if entry is not None and entry.row.state in ("not implemented", "not supported"):
            why = f": {entry.why}" if entry.why else ""
            text = f"cannot call {self._request.function}: it is {entry.row.state} by {bound.tool}{why}"
            raise CallRefused("missing", text, state=entry.row.state, why=entry.why, provider=bound.tool)

    def _test(self, declared: Callable[..., Any], *, changing: bool) -> dict[str, Any]:
        """Return the argument `test`. Raises `ArgumentError` if the function does not have it."""
        if not self._request.test:
            return {}
        if "test" not in parameters(declared):
            changes = "it has no parameter 'test', and would change something"
            why = changes if changing else "it changes nothing that a state manages"
            raise ArgumentError(f"cannot call {self._request.function} with --test: {why}")
        return {"test": True}

    def _note(self, signature: arguments.Signature, given: Mapping[str, Any]) -> None:
        """Note the values for the record, and the secrets that no text may contain."""
        secret = {name: given[name] for name in signature.secret & given.keys()}
        shown = {name: MASK if name in secret else arguments.brief(value) for name, value in given.items()}
        self._redactor = Redactor({"secrets": dict(enumerate(secret.values()))}, shown)
        words = (f"{name}={_written(value)}" for name, value in Redactor().masked(shown).items())
        self._shown = " ".join([self._request.function, *words])


def summary(result: Any, *, test: bool = False) -> str:
    """Return the changes of a call as text, with `test` the expected ones; empty if its result is not a change set."""
    if not isinstance(result, Mapping) or not result.keys() >= {"changes", "comment", "reboot_required"}:
        return ""
    names = ", ".join(result["changes"])
    done, nothing = ("would change", "nothing would be changed") if test else ("changed", "nothing was changed")
    return "; ".join(filter(None, (f"{done} {names}" if names else nothing, result["comment"])))


def _written(value: Any) -> str:
    """Return an argument as written on the command line."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)
