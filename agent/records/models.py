"""The records of the agent as models of the northbound store. `rows` writes the records of each pass without them.

Times are Unix times in seconds, durations seconds. IDs of passes, changes and notes sort by time (`ids`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.northbound.privacy import Private
from holdfast.agent.northbound.ref import OnDelete, Ref

Origin = Literal["drift", "states", "command", "start", "refresh"]
"""Why something changed: the host differed from its declaration, the declaration changed, an operator requested it, the
agent started, or another resource changed. A retry has the origin of its first attempt."""
Result = Literal["ok", "changed", "would-change", "unknown", "failed", "skipped"]
"""How a run ended, as in the log."""
Review = Literal["", "new", "seen", "done"]
"""Whether an operator has dealt with a drift; empty for what is no drift."""


class Actor(Struct):
    """A process that changed or requested something, as far as it is known: an `Author` as it is stored."""

    pid: int = 0
    """0: unknown."""
    name: str = ""
    """Name of the program."""
    command: Annotated[str, Private()] = ""
    """Command line, with secrets masked."""
    uid: int | None = None
    user: str = ""
    """Name of the user as which it ran."""
    login: str = ""
    """Name of the user who logged in."""
    unit: str = ""
    """Unit of systemd."""
    way: Literal["", "host", "socket", "apply", "signal"] = ""
    """How it acted: by a change of the host, by the control socket, as a one-shot run, or by a signal."""


class Replaced(Struct):
    """A file or a symbolic link that was replaced or removed, or whose owner or mode was changed.

    Without a hash, a target and a reason, the content is the same.
    """

    path: Annotated[str, Private(unless="public")] = ""
    """Empty for files that are only counted, in `lost`."""
    sha256: Annotated[str, Private(unless="public")] = ""
    """Of the content before, in hexadecimal digits."""
    size: int = 0
    """Bytes of the content before."""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    link: Annotated[str, Private(unless="public")] = ""
    """Target, if it was a symbolic link."""
    lost: str = ""
    """Why the content was not kept; empty if it was."""


class Host(Model, table="hosts"):
    """A machine that runs an agent. The ID is its name."""

    version: str
    """Version of the agent."""
    states: str = ""
    """Directory of the state files."""
    facts: Annotated[dict[str, Any], Private()] = Field(default_factory=dict)


class Pass(Model, table="passes"):
    """A run over the resources in which something changed or failed for the first time."""

    host: Annotated[Ref[Host], OnDelete.DANGLE]
    number: int
    """Number since the start of the agent."""
    cause: str
    at: float
    """Start."""
    duration: float
    converged: bool
    interrupted: bool = False
    counts: dict[str, int] = Field(default_factory=dict)
    """`checked`, `changed`, `failed`, `would-change`, `unknown`, `skipped` -> number of resources, if any."""
    by: Actor | None = None
    """Who requested the pass, if an operator did."""


class Change(Model, table="changes"):
    """One change or failure of a resource, or several equal failures in a row."""

    host: Annotated[Ref[Host], OnDelete.DANGLE]
    resource: str
    """`kind[id]`."""
    kind: str
    at: float
    """End of the run, or of the last one of several."""
    first: float
    """End of the first run."""
    times: int = 1
    what: str
    """What was done, as a word: `repaired`, `created`, `failed`, `blocked`, `recovered`, `would create`, `called`,
    `interrupted`."""
    result: Result
    origin: Origin
    cause: str
    """Why the resource ran, as in the log."""
    run: Annotated[Ref[Pass] | None, OnDelete.DANGLE] = None
    """The pass."""
    duration: float = 0.0
    comment: Annotated[str, Private(unless="public")] = ""
    public: bool = False
    """Every user of the host could read the comment, the changes and the diff."""
    changes: Annotated[dict[str, Any], Private(unless="public")] = Field(default_factory=dict)
    """What changed, by name; secrets are masked, long values cut."""
    before: Annotated[dict[str, Any], Private(unless="public")] = Field(default_factory=dict)
    """Values before the change, of properties that differed; secrets are masked, long values cut."""
    diff: Annotated[str, Private(unless="public")] = ""
    """Unified diff; secrets are masked, a long one is cut."""
    undone: str = ""
    """Another resource that seems to have undone an earlier repair."""
    ended: str = ""
    """How the service that was found dead had ended."""
    by: Actor | None = None
    """Who caused the change."""
    replaced: tuple[Replaced, ...] = ()
    """Files that were replaced, removed or changed in place."""
    review: Review = ""


class ResourceChange(Model, table="resource_changes"):
    """Indexes a change by its resource: the ID is the identity of the resource, a space and the ID of the change."""

    internal: ClassVar[bool] = True


class ResourceStatus(Model, table="resources"):
    """A resource that is not as declared. The ID is its identity; a resource that is as declared has no record."""

    host: Annotated[Ref[Host], OnDelete.DANGLE]
    kind: str
    result: Result
    since: float
    comment: Annotated[str, Private()] = ""


class Condition(Model, table="conditions"):
    """A present problem of the agent itself. The ID is its code."""

    host: Annotated[Ref[Host], OnDelete.DANGLE]
    severity: Literal["info", "warning", "error"]
    text: Annotated[str, Private()]
    since: float


class Note(Model, table="notes"):
    """A record of what an operator did or wrote."""

    host: Annotated[Ref[Host], OnDelete.DANGLE]
    at: float
    what: str
    """`pause`, `resume`, `call`, ..."""
    about: tuple[str, ...] = ()
    """Identities or patterns of resources."""
    text: Annotated[str, Private()] = ""
    by: Actor | None = None


class Published(Model, table="published"):
    """The position up to which the records were published as messages. The ID is the way: `mqtt`."""

    internal: ClassVar[bool] = True

    revision: int
    """Everything up to this revision was published."""
    at: float
    """When this was last written."""


UNCACHED: tuple[type[Model], ...] = (Pass, Change, ResourceChange, Note, Published)
"""Models with many records, which the cache does not hold."""
