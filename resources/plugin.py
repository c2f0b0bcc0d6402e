"""Services of the agent for kinds that plugins provide (`Context.plugin`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol

from holdfast.resources.watch_items import WatchItem

CHECKED = 4096
"""Greatest number of inputs per plugin that are remembered as accepted."""


class RemoteRecord(NamedTuple):
    """What the agent remembers about one remote resource, across restarts."""

    id: str
    """Identifier that the plugin has given to the resource."""
    state: bytes
    """State of the resource when it was last read or changed, encoded as on the wire, without secrets."""
    version: int
    """Version of the format of that state."""
    revision: str = ""
    """Revision of the resource; empty if the plugin has none."""
    unfinished: bool = False
    """Whether its creation failed half-way: the next attempt is then an update, whatever the state says."""
    replaced: tuple[str, ...] = ()
    """Identifiers of resources that this one has replaced and that must still be deleted, the oldest first."""
    hidden: str = ""
    """Salted hash of the write-only arguments that were sent last; empty if none were sent."""
    intent: str = ""
    """Token of a creation that was begun and whose result is not known; empty if there is none."""


class CheckedInputs:
    """Inputs that a plugin has accepted, with the plugin's answer to each."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bytes], bytes] = {}

    def get(self, token: str, given: bytes) -> bytes | None:
        """Return the answer to inputs of a kind; None if it is not known."""
        return self._made.get((token, given))

    def put(self, token: str, given: bytes, made: bytes) -> None:
        """Remember an answer. If `CHECKED` answers are remembered, forget all of them first."""
        if len(self._made) >= CHECKED:
            self._made.clear()
        self._made[token, given] = made


class Plugin(Protocol):
    """One plugin. It is started when it is first needed.

    Requests and responses are messages of the protocol (`agent/plugins/provider.proto`). A method raises `Temporary` if
    the plugin ends, cannot be started now or does not answer in time, and `Permanent` if it cannot be used at all.
    """

    @property
    def checked(self) -> CheckedInputs:
        """Inputs that the running process of the plugin has accepted; another process may answer differently."""
        ...

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response to a request. `timeout` is in seconds."""
        ...

    async def read(self, item: Any) -> Any:
        """Return the result of reading one resource. Reads that are made together share one request."""
        ...

    def watch(self, token: str, identifier: Callable[[], str]) -> AsyncIterator[WatchItem]:
        """Yield None once changes of the resource are reported, and again when it may have changed: see `Watch`.

        `token` is that of its kind. `identifier` returns its present id; empty if it does not exist.
        """
        ...

    async def poll(self, seconds: float) -> bool:
        """Wait before a poll. Return True at once if the plugin sees changes again after a time when it could not."""
        ...

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered about a resource; None if nothing is. `name` is that of the declaration."""
        ...

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember this about a resource, durable on return; None forgets it."""
        ...
