"""`event.*`: events that states send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.fields import Line, plain_numbers
from holdfast.resources.traits import Refreshable


class EventKind(Refreshable, Resource):
    """Base of the kinds of events; the name is the tag of the event."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    exclusive: ClassVar[bool] = False
    public_results: ClassVar[bool] = True
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("send",)
    ignored: ClassVar[Mapping[str, str]] = {
        "show_changed": "the event is the record of the change",
        "sfun": "Salt does not use it either",
    }
    refused: ClassVar[Mapping[str, str]] = {
        "with_env": "the environment of the agent is not sent; put the values that you need into data",
        "with_grains": "put the grains that you need into data: {{ grains['fqdn'] }}",
        "with_pillar": "the pillar has secrets; put the values that you need into data",
        "preload": "an event has no envelope; put the values that you need into data",
    }

    name: Line
    """Tag of the event, such as `mycompany/web/ready`."""
    data: Annotated[Any, BeforeValidator(plain_numbers)] = None
    """Data of the event. All users of the host and of the broker may see them; secrets of the pillar are masked."""

    def action(self) -> bool:
        """Return True: the state cannot tell whether the event must be sent."""
        return True

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Send the event again."""
        return self.send(ctx, apply=apply)

    def send(self, ctx: Context, *, apply: bool) -> bool:
        """Report the event as a change; the record of the change is published."""
        ctx.report.changes = {"tag": self.name, "data": self.data}
        ctx.report.did(Effect(("send",), f"event {self.name}"), applied=apply)
        return False


class Send(EventKind, kind="event.send"):
    """An event is sent once for each version of the state, and whenever a state that it watches has changed.

        mycompany/web/ready:
          event.send:
            - data:
                status: the web server has its configuration
            - require:
              - file: /etc/nginx/nginx.conf

    The event is a record of the history, with the tag and the data as its changes: `holdfast history` and `holdfast
    log` show it. If the settings name a broker ([mqtt.md](../mqtt.md)), it is published to the topic `changes`. It is
    sent at least once, even if the broker is away or the agent is killed.
    """

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Send the event."""
        return self.send(ctx, apply=apply)


class Wait(EventKind, kind="event.wait"):
    """An event is sent only when a state that it watches has changed.

    mycompany/web/reconfigured:
      event.wait:
        - watch:
          - file: /etc/nginx/nginx.conf
    """

    def action(self) -> bool:
        """Return False: without a change there is nothing to do."""
        return False

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing."""
        ctx.report.comment = "waits for a change of a watched state"
        return True
