"""What kinds that plugins provide use of the agent (`Context.plugin`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, Protocol

from holdfast.resources.watch_items import WatchItem

CHECKED = 4096
"""Most inputs of one plugin of which it is remembered that the plugin has accepted them."""


class RemoteRecord(NamedTuple):
    """What the agent remembers about one remote resource, across restarts."""

    id: str
    """Identifier that the plugin has given to the resource."""
    state: bytes
    """State when it was last read or changed, encoded as on the wire, without secrets."""
    version: int
    """Version of the form of that state."""
    revision: str = ""
    """Revision of the resource; empty if the plugin has none."""
    unfinished: bool = False
    """Its creation has failed half-way, so the next try is an update, whatever its state says."""
    replaced: tuple[str, ...] = ()
    """Identifiers of resources that it has replaced and that are still to be deleted, the oldest first."""
    hidden: str = ""
    """Salted hash of the write-only arguments that were sent last; empty if none were."""
    intent: str = ""
    """Token of a creation that was begun and whose end is not known; empty if there is none."""


class CheckedInputs:
    """The inputs that a plugin has accepted, each with what the plugin has made of them."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, bytes], bytes] = {}

    def get(self, token: str, given: bytes) -> bytes | None:
        """Return what was made of inputs of a kind; None if that is not known."""
        return self._made.get((token, given))

    def put(self, token: str, given: bytes, made: bytes) -> None:
        """Remember that. If much is remembered, everything else is forgotten."""
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
        """What the present start of it has accepted: the answers of another one may be others."""
        ...

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response to a request. `timeout` is in seconds."""
        ...

    async def read(self, item: Any) -> Any:
        """Return the result of reading one resource. Items that are asked for together travel in one request."""
        ...

    def watch(self, token: str, identifier: Callable[[], str]) -> AsyncIterator[WatchItem]:
        """Yield None once changes of the resource are reported, and again when it may have changed: see `Watch`.

        `token` is that of its kind. `identifier` returns its present id; empty if it does not exist.
        """
        ...

    async def poll(self, seconds: float) -> bool:
        """Wait as long before a poll; return True at once when the plugin sees changes again that it has not seen."""
        ...

    async def remembered(self, token: str, name: str) -> RemoteRecord | None:
        """Return what is remembered about a resource; None if nothing is. `name` is that of the declaration."""
        ...

    async def remember(self, token: str, name: str, record: RemoteRecord | None) -> None:
        """Remember this about a resource, durable on return; None forgets it."""
        ...
