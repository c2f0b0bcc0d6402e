"""Arguments that every state accepts, whatever its kind: guards, retries, limits.

Salt's global state arguments and mgmt's meta parameters in one typed model. An argument that the kind itself declares
(`timeout` of `cmd.run`) belongs to the kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.resources.fields import Owner, RootedPath, parse_list, parse_umask


class Retry(BaseModel):
    """How often, and when, a run that did not come out as wished is tried again."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    attempts: int = Field(2, ge=-1)
    """Attempts in all; -1: for ever."""
    interval: float = Field(30.0, ge=0)
    """Seconds between two attempts."""
    splay: float = Field(0.0, ge=0)
    """Up to so many random seconds more."""
    until: bool = True
    """The result that ends it."""
    backoff: bool = False
    """Double the interval each time, up to 60 s, with jitter."""


def parse_retry(value: object) -> object:
    """`retry: true` is Salt's default of 2 attempts 30 s apart; `retry: N` is N more attempts after an error, with backoff."""
    if value is None or value is False or value == 0:
        return None
    if value is True:
        return Retry()
    if isinstance(value, int):
        return Retry(attempts=-1 if value < 0 else value + 1, interval=1.0, backoff=True)
    return value


class Receive(NamedTuple):
    """One argument whose value another state sends."""

    argument: str
    type: str
    """Of the sender: a state type, or `id` for any."""
    sender: str
    """ID or name."""
    key: str
    """What of all that it sends."""


def parse_receive(value: object) -> tuple[Receive, ...]:
    """`{ARGUMENT: {TYPE: ID, key: KEY}}`, or a list of such mappings, as one tuple of `Receive`."""
    items = value if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(item, Receive) for item in items):
        return tuple(items)
    found: dict[str, Receive] = {}
    for item in items:
        if not isinstance(item, Mapping):
            raise ValueError(f"{item!r} says nothing: write `argument: {{cmd: ID, key: stdout}}`")  # noqa: TRY004 - pydantic collects ValueErrors
        for argument, source in item.items():
            senders = [key for key in source if key != "key"] if isinstance(source, Mapping) else []
            if (
                len(senders) != 1
                or len(source) != 2
                or not all(isinstance(text, str) for pair in source.items() for text in pair)
            ):
                raise ValueError(
                    f"what {argument!r} is to receive is written `{argument}: {{cmd: ID, key: stdout}}`: a sender, and what of it"
                )
            if argument in found:
                raise ValueError(f"{argument!r} can receive from one state only")
            found[argument] = Receive(str(argument), senders[0], source[senders[0]], source["key"])
    return tuple(found.values())


Conditions = Annotated[
    tuple[str | dict[str, Any], ...] | None, BeforeValidator(lambda v: v if v is None else parse_list(v))
]
"""Guards: shell commands, or calls of a read-only function (`{fun: ..., args: [...]}`)."""


def parse_semaphores(value: object) -> object:
    """One semaphore or a list: `id`, or `id:N` for N places. An id is no number, or `sema: 4` would mean something else than it says."""
    names = parse_list(value)
    for name in names if isinstance(names, (list, tuple)) else ():
        if not isinstance(name, str) or not re.fullmatch(r"(?!\d+(:|$))[^:\s]+(:[1-9]\d*)?", name):
            raise ValueError(f"{name!r} is no semaphore: say `id`, or `id:N` for N that may run at once")
    return names


def check_poll(value: float | None) -> float | None:
    """More than 0, or -1. Raises `ValueError`."""
    if value is not None and value <= 0 and value != -1:
        raise ValueError("say a number of seconds, more than 0; or -1 to look once; leave it out to watch")
    return value


class Meta(BaseModel):
    """The meta parameters of one state."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    noop: bool | None = None
    """Check only; None: as the agent says."""
    retry: Annotated[Retry | None, BeforeValidator(parse_retry)] = None
    """Attempts after an error: how many more, -1 for ever, or `{attempts, interval, splay, until}`; None: none."""
    delay: float = Field(1.0, ge=0)
    """Seconds before the first retry of a plain `retry: N`; doubles up to 60 s."""
    timeout: float | None = Field(None, gt=0)
    """Deadline of one run in seconds; expiry is an error. A command is run again after it only where `retry` says so."""
    poll: Annotated[float | None, AfterValidator(check_poll)] = None
    """Seconds between looks, instead of watching; -1: look once."""
    limit: float | None = Field(None, gt=0)
    """Runs per second; None: as the agent says."""
    burst: int | None = Field(None, ge=1)
    """Runs that may follow each other without a wait."""
    sema: Annotated[tuple[str, ...], BeforeValidator(parse_semaphores)] = ()
    """Counting semaphores, `id` or `id:N`: of all that name one, so many run at once; without a number, one."""
    rewatch: bool = True
    """When it has failed, look at it again with every new graph, even where nothing has changed for it."""
    reverse: bool = False
    """When the state is taken away, put back what was there before it first ran (reversible kinds)."""
    autoedge: bool = True
    """Take part in automatic edges: wait for what it needs, be waited for by those who need it."""
    autogroup: bool = True
    """Take part in automatic grouping: resources that may run at the same time are put right in one go (packages)."""
    rerun: Literal["start"] | Annotated[float, Field(gt=0)] | None = None
    """Actions only: run again at every start of the agent, or every so many seconds."""

    onlyif: Conditions = None
    """Run only when all of these hold."""
    unless: Conditions = None
    """Do not run when all of these hold."""
    creates: Annotated[tuple[RootedPath, ...] | None, BeforeValidator(lambda v: v if v is None else parse_list(v))] = (
        None
    )
    """Do not run when all of these paths exist."""
    check_cmd: Annotated[tuple[str, ...] | None, BeforeValidator(lambda v: v if v is None else parse_list(v))] = None
    """Commands that must succeed after the run."""
    parallel: bool = False
    """Others need not wait for it on the first pass."""
    onfail_stop: bool = True
    """With `onfail`: false means that a failure which this handles well is none of the whole one-shot run."""
    failhard: bool | None = None
    """Stop the one-shot run when it fails; None: as the agent says."""
    fire_event: bool | str = False
    """Publish an event when it has run."""
    runas: Owner | None = None
    """User for its commands and guards."""
    umask: Annotated[int | None, BeforeValidator(lambda value: value if value is None else parse_umask(value))] = None
    """Umask around its run, octal digits."""
    no_log: bool = False
    """Mask name, comment and changes wherever they are shown."""
    aggregate: bool | None = None
    """Grouping may bring it forward in definition order; false: it takes no part in grouping."""
    recv: Annotated[tuple[Receive, ...], BeforeValidator(parse_receive)] = ()
    """Arguments that take their value from what another state sends, which runs before: `{contents: {cmd: get_token, key: stdout}}`."""
    reload_modules: bool = False
    """Accepted for Salt's sake, no effect."""
    reload_grains: bool = False
    """Accepted for Salt's sake, no effect."""
    reload_pillar: bool = False
    """Accepted for Salt's sake, no effect."""
    saltenv: str | None = None
    """Accepted for Salt's sake; the environment of the file it is in holds."""


META_FIELDS = frozenset(Meta.model_fields)
"""Names of all meta parameters."""
IDLE = {
    "fire_event": "there is no event bus",
    "reload_modules": "nothing has to be loaded anew",
    "reload_grains": "grains are gathered when states are compiled",
    "reload_pillar": "the pillar is compiled before the states",
}
"""Meta parameters that are accepted without effect -> why."""
