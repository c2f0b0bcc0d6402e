"""`module.run`, `module.wait`: calls of Salt's execution functions; `resources/execution/` has their table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.execution import table
from holdfast.resources.execution.template_functions import NAMES
from holdfast.resources.fields import field, plain_numbers
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.needs import Need, needed
from holdfast.resources.secrets import Redactor
from holdfast.resources.traits import Refreshable

PREFIXED = ("name", "names", "fun", "state", "saltenv")
"""Parameters that have the prefix `m_` in the old syntax, because every state has arguments with these names."""
MASKED = Redactor()


class PlannedCall(NamedTuple):
    """One call: the name of the function, and its arguments."""

    function: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def check(self) -> None:
        """Raise `ValueError` if the function does not exist or does not accept these arguments."""
        if function := table.find(self.function):
            function.check(self.args, self.kwargs)
        elif self.function not in NAMES:
            raise ValueError(table.why_not(self.function, NAMES))

    async def run(self, ctx: Context) -> Any:
        """Call the function. Raises `HoldfastError`."""
        if function := table.find(self.function):
            return await function.call(ctx, *self.args, **self.kwargs)
        return await ctx.blocking(ctx.call, {**self.kwargs, "fun": self.function, "args": list(self.args)})


class _Module(Resource, Refreshable):
    """Base of both kinds.

    The fields of this class are made from arguments with the names of functions (Salt's present syntax), or from the
    arguments of the one function in `name` (the old syntax).
    """

    model_config = ConfigDict(extra="allow")

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("run",)
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    exclusive: ClassVar[bool] = False
    ignored: ClassVar[Mapping[str, str]] = {"returner": "there is no master to return results to"}

    runas: Any = None
    """Old syntax: an argument of the function."""
    umask: Any = None
    """Old syntax: an argument of the function."""
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The calls, made from the arguments that name functions; states do not write `calls` itself."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Make the calls from the arguments. An error has the position of the argument that names the function."""
        if not isinstance(given, dict):
            return given
        if not isinstance(given.get("name", ""), str):
            raise _wrong("name", "write the name of a function, as in `pkg.install`")
        functions = {key: plain_numbers(_plain(value)) for key, value in given.items() if "." in key}
        if not functions:
            more = {key: plain_numbers(_plain(value)) for key, value in given.items() if key != "name"}
            calls = {given["name"]: cls._checked("name", given["name"], lambda: _old(more))}
            return {"name": given["name"], "calls": calls}
        if other := sorted(given.keys() - functions.keys() - {"name"}):
            raise _wrong(other[0], "pass it to one of the functions: `FUNCTION: [{" + other[0] + ": ...}]`")
        calls = {key: cls._checked(key, key, lambda value=value: _new(value)) for key, value in functions.items()}
        return {"name": given["name"], "calls": calls}

    @staticmethod
    def _checked(key: str, name: str, arguments: Any) -> dict[str, Any]:
        """Return the arguments of a call. Raises `ValidationError` at the argument `key`."""
        try:
            args, kwargs = arguments()
            PlannedCall(name.partition(":")[0], args, kwargs).check()
        except ValueError as error:
            raise _wrong(key, str(error)) from None
        return {"args": list(args), "kwargs": kwargs}

    def planned(self) -> dict[str, PlannedCall]:
        """Return the calls by their names in the state; `service.restart:2` is a second call of a function."""
        return {
            key: PlannedCall(key.partition(":")[0], tuple(call["args"]), call["kwargs"])
            for key, call in self.calls.items()
        }

    def needs(self) -> tuple[Need, ...]:
        """Return the functions of interfaces that the calls use."""
        found = [table.find(call.function) for call in self.planned().values()]
        used = [needed(each.interface, *each.uses) for each in found if each and each.interface]
        return tuple(dict.fromkeys(need for needs in used for need in needs))

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Call the functions again."""
        return await self._call(ctx, apply)

    async def _call(self, ctx: Context, apply: bool) -> bool:
        """Call the functions one after the other; at the first failure, the state fails.

        Returns whether nothing was changed. Without `apply`, no function is called.
        """
        if not apply:
            ctx.report.changes = dict.fromkeys(map(self._shown, self.calls))
            ctx.report.did(Effect(("run",), ", ".join(self.calls)), applied=False)
            return False
        ctx.report.changing()
        comments = []
        for key, call in self.planned().items():
            value, comment = _outcome(key, await _run(ctx, key, call))
            if value is not None:
                ctx.report.changes = {**ctx.report.changes, self._shown(key): value}
            comments.append(comment)
        if not ctx.report.changes:
            ctx.report.comment = "; ".join(comments)
            return True
        ctx.report.did(Effect(("run",), ", ".join(self.calls)), applied=True)
        ctx.report.comment = "; ".join(comments)
        return False

    def _shown(self, key: str) -> str:
        """Return the key of a result in the changes; with the old syntax, Salt uses `ret`."""
        return "ret" if key == self.name else key


class Run(_Module, kind="module.run"):
    """Execution functions are called, each by its name with a list of its arguments.

    docs/calls.md lists the functions. The calls run once, and again when the state changes or a state that it watches
    has changed. If the agent is killed during the calls, it makes all of them again. Two calls of one function:
    `service.restart:1` and `service.restart:2`.

    new database:
      module.run:
        - pkg.refresh_db: []
        - service.restart:
          - postgresql
          - no_block: true

    The second example has the old syntax: the name is the function, and its arguments are beside it, with `m_name` for
    `name`.

    restart nginx:
      module.run:
        - name: service.restart
        - m_name: nginx
    """

    def action(self) -> bool:
        """Return True: the state cannot tell whether the calls are needed."""
        return True

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Call the functions."""
        return await self._call(ctx, apply)


class Wait(_Module, kind="module.wait"):
    """Execution functions are called only when a state that they watch has changed.

    reload nginx:
      module.wait:
        - service.reload:
          - nginx
        - watch:
          - file: /etc/nginx/nginx.conf
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing."""
        ctx.report.comment = "waits for a change of a watched state"
        return True


def _new(given: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments from a list, in which mappings have named arguments. Raises `ValueError`."""
    if isinstance(given, dict):
        return [], given
    if not isinstance(given, list) and given is not None:
        raise ValueError("the arguments of a function must be a list: write `[ARGUMENT, ...]`")
    args: list[Any] = []
    named: dict[str, Any] = {}
    for item in given or ():
        if isinstance(item, dict):
            named.update((str(key), value) for key, value in item.items())
        else:
            args.append(item)
    return args, named


def _old(given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of the old syntax. Raises `ValueError`."""
    args, more = given.get("args") or [], given.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(more, dict):
        raise ValueError("args must be a list, and kwargs a mapping")  # noqa: TRY004 - pydantic collects ValueErrors
    named = {key: value for key, value in given.items() if key not in ("args", "kwargs")}
    prefixed = {f"m_{name}": name for name in PREFIXED}
    return args, {prefixed.get(key, key): value for key, value in {**named, **more}.items()}


def _plain(value: Any) -> Any:
    """Return data without the positions that the compiler stores."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _wrong(key: str, why: str) -> ValidationError:
    """Return an error that points to one argument."""
    error = InitErrorDetails(type=PydanticCustomError("value_error", "{why}", {"why": why}), loc=(key,), input=None)
    return ValidationError.from_exception_data("module", [error])


async def _run(ctx: Context, key: str, call: PlannedCall) -> Any:
    """Call a function. Raises `HoldfastError` with its name."""
    try:
        return await call.run(ctx)
    except HoldfastError as error:
        error.args = (f"{key}: {error}", *error.args[1:])
        raise


def _outcome(key: str, value: Any) -> tuple[Any, str]:
    """Return the change to report, or None, and a comment.

    Raises `Permanent` if the value means that the call has failed.
    """
    if isinstance(value, ChangeSet):
        done = value.comment or ("done" if value else "nothing to change")
        return value.changes or None, f"{key}: {done}"
    function = table.find(key.partition(":")[0])
    shown = MASKED.named(value) if function and function.interface else MASKED.masked(value)
    if _has_failed(value):
        raise Permanent(f"{key}: the call has failed" + ("" if value is False else f": {shown}"))
    return (True if value is None else shown), f"{key}: done"


def _has_failed(value: Any) -> bool:
    """Return whether a value means failure: false, a status other than 0, or the result false."""
    if isinstance(value, dict):
        return value.get("retcode", 0) != 0 or value.get("result", True) is False
    return value is False
