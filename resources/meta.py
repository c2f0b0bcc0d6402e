"""Meta parameters: arguments that every state accepts, whatever its kind (guards, retries, limits).

One typed model holds Salt's global state arguments and mgmt's meta parameters. An argument that the kind itself
declares (`timeout` of `cmd.run`) belongs to the kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.fields import Owner, RootedPath, Umask, field, parse_list


class Retry(BaseModel):
    """How often, and when, a run is repeated after a result other than the wanted one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    attempts: int = Field(2, ge=-1)
    """Attempts in all; -1: without limit."""
    interval: float = field(30.0, unit="seconds", ge=0)
    """Seconds between two attempts."""
    splay: float = field(0.0, unit="seconds", ge=0)
    """Greatest number of seconds that are added at random to the interval."""
    until: bool = True
    """The result that ends the attempts."""
    backoff: bool = False
    """Double the interval each time, up to 60 s, with jitter."""


@accepts(VALUE, bool, int)
def parse_retry(value: object) -> object:
    """Return a `Retry`, or None for no retries.

    `retry: true` is Salt's default of 2 attempts 30 s apart; `retry: N` is N more attempts after an error, with
    backoff.
    """
    if value is None or value is False or value == 0:
        return None
    if value is True:
        return Retry()
    if isinstance(value, int):
        return Retry(attempts=-1 if value < 0 else value + 1, interval=1.0, backoff=True)
    return value


class Receive(NamedTuple):
    """One argument that takes its value from another state."""

    argument: str
    type: str
    """Type of the sender: a state type, or `id` for any."""
    sender: str
    """ID or name of the sender."""
    key: str
    """Key of one of the sender's values."""
    steps: tuple[str | int, ...] = ()
    """Of a reference: keys and positions that lead to it in the arguments; `argument` is then their text."""
    kind: str = ""
    """Of a reference: the kind that the sender must be of."""


@accepts(dict[str, dict[str, str]], list[dict[str, dict[str, str]]])
def parse_receive(value: object) -> tuple[Receive, ...]:
    """Return `{ARGUMENT: {TYPE: ID, key: KEY}}`, or a list of such mappings, as a tuple of `Receive`."""
    items = value if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(item, Receive) for item in items):
        return tuple(items)
    found: dict[str, Receive] = {}
    for item in items:
        if not isinstance(item, Mapping):
            said = f"{item!r} is not a mapping: write `argument: {{cmd: ID, key: stdout}}`"
            raise ValueError(said)  # noqa: TRY004 - pydantic collects ValueErrors
        for argument, source in item.items():
            received = _receive(argument, source)
            if argument in found:
                raise ValueError(f"{argument!r} can receive from one state only")
            found[argument] = received
    return tuple(found.values())


def _receive(argument: object, source: object) -> Receive:
    """Return one item of `recv`. Raises `ValueError` unless the source names one sender and one key."""
    senders = [key for key in source if key != "key"] if isinstance(source, Mapping) else []
    if isinstance(source, Mapping) and len(senders) == 1 and len(source) == 2:
        sender = senders[0]
        if all(isinstance(text, str) for text in (sender, source[sender], source["key"])):
            return Receive(str(argument), sender, source[sender], source["key"])
    raise ValueError(
        f"{argument!r} must be given as `{argument}: {{cmd: ID, key: stdout}}`: the sender, and the key of one of its "
        "values"
    )


Conditions = Annotated[tuple[str | dict[str, Any], ...], BeforeValidator(parse_list)] | None
"""Guards: shell commands, or calls of a read-only function (`{fun: ..., args: [...]}`)."""


@accepts(VALUE, ITEM, None)
def parse_semaphores(value: object) -> object:
    """Return one semaphore or several as a list: `id`, or `id:N` for N places.

    An id that is a number is refused, because `sema: 4` looks like a semaphore of 4 places.
    """
    names = parse_list(value)
    for name in names if isinstance(names, (list, tuple)) else ():
        if not isinstance(name, str) or not re.fullmatch(r"(?!\d+(:|$))[^:\s]+(:[1-9]\d*)?", name):
            raise ValueError(f"{name!r} is not a semaphore: write `id`, or `id:N` to let N run at once")
    return names


@accepts()
def check_poll(value: float | None) -> float | None:
    """Return the value if it is more than 0 or -1. Raises `ValueError` otherwise."""
    if value is not None and value <= 0 and value != -1:
        raise ValueError("give a number of seconds above 0, or -1 to probe once; leave it out to watch")
    return value


class Meta(BaseModel):
    """The meta parameters of one state."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    noop: bool | None = None
    """Check only, change nothing; None: as the agent is configured."""
    retry: Annotated[Retry | None, BeforeValidator(parse_retry)] = None
    """Further attempts after an error: a number, -1 for no limit, or `{attempts, interval, splay, until}`.

    None: none.
    """
    delay: float = field(1.0, unit="seconds", ge=0)
    """Seconds before the first retry of a plain `retry: N`; doubles up to 60 s."""
    timeout: float | None = field(None, unit="seconds", gt=0)
    """Greatest duration of one run in seconds; exceeding it is an error.

    A command that exceeded the timeout is run again only if `retry` is set.
    """
    poll: Annotated[float | None, AfterValidator(check_poll)] = field(None, unit="seconds")
    """Seconds between probes, instead of watching; -1: probe once."""
    limit: float | None = field(None, unit="per second", gt=0)
    """Runs per second; None: as the agent is configured."""
    burst: int | None = Field(None, ge=1)
    """Number of runs that may follow each other without waiting."""
    sema: Annotated[tuple[str, ...], BeforeValidator(parse_semaphores)] = ()
    """Counting semaphores, `id` or `id:N`: at most N of the states that name the id run at once. Default of N: 1."""
    rewatch: bool = True
    """After a failure, probe again with each new graph, even if nothing has changed for this state."""
    reverse: bool = False
    """When the state is removed, restore the state of the machine from before its first run (reversible kinds)."""
    autoedge: bool = True
    """Take part in automatic edges: run after the states that this state depends on, and before its dependents."""
    autogroup: bool = True
    """Take part in automatic grouping: resources that may run at the same time are repaired together (packages)."""
    rerun: Literal["start"] | Annotated[float, Field(gt=0)] | None = field(None, unit="seconds")
    """Actions only: run again at each start of the agent (`start`), or after this number of seconds."""

    onlyif: Conditions = None
    """Run only when all of these hold."""
    unless: Conditions = None
    """Do not run when all of these hold."""
    creates: Annotated[tuple[RootedPath, ...], BeforeValidator(parse_list)] | None = None
    """Do not run when all of these paths exist."""
    check_cmd: Annotated[tuple[str, ...], BeforeValidator(parse_list)] | None = None
    """Commands that must succeed after the run."""
    parallel: bool = False
    """Other states need not wait for this one on the first pass."""
    onfail_stop: bool = True
    """With `onfail`, false: a failure that this state handles does not make the one-shot run fail."""
    failhard: bool | None = None
    """Stop the one-shot run if this state fails; None: as the agent is configured."""
    fire_event: bool | str = False
    """Publish an event after the run."""
    runas: Owner | None = None
    """User that runs the commands and guards of the state."""
    umask: Umask | None = None
    """Umask of the run, octal digits."""
    no_log: bool = False
    """Mask name, comment and changes wherever they are shown."""
    aggregate: bool | None = None
    """Grouping may run this state earlier than its definition order; false: no grouping."""
    recv: Annotated[tuple[Receive, ...], BeforeValidator(parse_receive)] = ()
    """Arguments whose values another state sends, which runs first: `{contents: {cmd: get_token, key: stdout}}`."""
    reload_modules: bool = False
    """Accepted for compatibility with Salt, no effect."""
    reload_grains: bool = False
    """Accepted for compatibility with Salt, no effect."""
    reload_pillar: bool = False
    """Accepted for compatibility with Salt, no effect."""
    saltenv: str | None = None
    """Accepted for compatibility with Salt; the environment is that of the file."""


META_FIELDS = frozenset(Meta.model_fields)
"""Names of all meta parameters."""
WITHOUT_EFFECT = {
    "fire_event": "there is no event bus",
    "reload_modules": "there is nothing to reload",
    "reload_grains": "grains are gathered when states are compiled",
    "reload_pillar": "the pillar is compiled before the states",
}
"""Meta parameters that are accepted without effect -> the reason."""
