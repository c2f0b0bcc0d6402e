"""Requests of the control socket.

Each is a dataclass: a client sends its fields, and the agent executes `answer`. The request of a verb of the command
line is in the module of the verb (`agent/verbs`); `internal` has the internal requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.agent.control.schema import FOREVER

if TYPE_CHECKING:
    from holdfast.agent.control.connection import ClientConnection
    from holdfast.agent.running_agent import RunningAgent


Viewers = Literal["no", "masked", "whole"]
"""Whether viewers may send a request (`view_server`).

`masked`: yes, and `viewers.masked` removes private fields from the answer; `whole`: yes, and the handler itself gives
them only public data.
"""

declared: dict[str, type[ControlRequest]] = {}
"""Verb -> its request; complete when all modules with requests are imported."""


def demand_span(seconds: float | None) -> None:
    """Raise `ValueError` unless a duration is above 0 and below `FOREVER` seconds. None, for no limit, is valid."""
    if seconds is not None and not 0 < seconds < FOREVER:
        raise ValueError(f"{seconds} is not a number of seconds above 0 and below {FOREVER:g}")


@dataclass(frozen=True)
class ControlRequest(ABC):
    """A client's request. Every field has a default or must be sent; the agent checks the types."""

    verb: ClassVar[str]
    viewers: ClassVar[Viewers]
    stream: ClassVar[bool]  # the answer is a stream of messages, which the handler makes in turns of the client
    __pydantic_config__ = {"extra": "forbid", "strict": True}  # noqa: RUF012 - not a field: pydantic reads it

    def __init_subclass__(cls, verb: str, viewers: Viewers = "no", *, stream: bool = False) -> None:
        """Register the request of this verb. Raises `ValueError` if there is another one."""
        if verb in declared:
            raise ValueError(f"there are two requests of the verb {verb!r}")
        cls.verb, cls.viewers, cls.stream = verb, viewers, stream
        declared[verb] = cls

    @abstractmethod
    async def answer(self, agent: RunningAgent, client: ClientConnection) -> Any:
        """Execute the request in the agent; return the data of the response, ready for JSON.

        Raises `ControlError` to refuse.
        """

    def message(self) -> dict[str, Any]:
        """Return the request as a mapping to send.

        Fields that have their default are left out, so that an older agent, before an upgrade, understands the request.
        """
        values = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}
        return {"verb": self.verb, **values}
