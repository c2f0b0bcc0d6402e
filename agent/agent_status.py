"""The state of the agent as a whole: a line for systemd, a mapping for `status`, and messages of health in the log."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection
from typing import Any

from holdfast import __version__
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.inspect.status import paused, rows
from holdfast.agent.engine.model.events import Event, Notice, PassEnded, Ran
from holdfast.agent.health import Health, HealthCondition
from holdfast.agent.host.host import LocalHost
from holdfast.agent.loggers import LazyLogger
from holdfast.agent.logs import Logs
from holdfast.agent.notify import Notifier
from holdfast.agent.pausing import PAUSED
from holdfast.agent.phrases import number_of
from holdfast.agent.settings import Settings

log = LazyLogger("holdfast")

BROKEN = "states-broken"
"""Code of the health condition for a configuration that cannot be used."""
UNWATCHED = "watch-broken"
"""Code of the health condition for failed watches of resources."""
WITH_DETAILS = {BROKEN, PAUSED, UNWATCHED}
"""Codes of conditions whose beginning and end are logged in detail elsewhere."""


class AgentStatus:
    """The status of one agent. `publish` sends the line to systemd."""

    def __init__(
        self, settings: Settings, engine: Engine, host: LocalHost, *, health: Health, logs: Logs, notifier: Notifier
    ) -> None:
        self._engine, self._host, self._health = engine, host, health
        self._logs, self._notifier = logs, notifier
        self._settings = settings
        self._started = time.time()
        self._reloaded: float | None = None
        """Unix time at which settings and states were last applied; None: not yet."""
        self._resources = 0
        self._failing: set[str] = set()
        self._conditions: dict[str, HealthCondition] = {}
        """The conditions that the log has reported."""

    # -- events ------------------------------------------------------------------------------------------

    def applied(self, settings: Settings, declared: Collection[str]) -> None:
        """Adopt the settings and states that were applied; `declared` has the identities of all resources."""
        self._settings, self._resources = settings, len(declared)
        self._failing.intersection_update(declared)
        self._reloaded = time.time()
        self._tell_of_watches()

    def tell(self, event: Event) -> None:
        """Handle an event of the engine."""
        if isinstance(event, Ran):
            (self._failing.add if event.outcome.result is False else self._failing.discard)(event.outcome.identity)
        elif isinstance(event, Notice) and event.code in ("watch-failed", "watched-again"):
            self._tell_of_watches()
        elif isinstance(event, PassEnded) or (isinstance(event, Notice) and event.code in ("paused", "resumed")):
            self.publish()

    def health_changed(self) -> None:
        """Log conditions that begin and end."""
        now = {condition.code: condition for condition in self._health.conditions}
        for code in now.keys() - self._conditions.keys() - WITH_DETAILS:
            (log.info if now[code].severity == "info" else log.warning)(now[code].text, code=code)
        if BROKEN in self._conditions and BROKEN not in now:
            log.info("fixed: states and settings can be used again", code=BROKEN)
        for code in self._conditions.keys() - now.keys() - WITH_DETAILS:
            text = self._conditions[code].text.partition("; ")[0]  # without the advice
            log.info("no longer true: %s", text, code=code)
        self._conditions = now
        self.publish()

    def _tell_of_watches(self) -> None:
        """Set or clear the health condition for resources that are not watched."""
        broken = self._engine.view.unwatched
        if not broken:
            self._health.clear(UNWATCHED)
            return
        vertex, why = next(iter(broken.items()))
        others = f" (and {number_of(len(broken) - 1, 'other')})" if len(broken) > 1 else ""
        self._health.set(
            UNWATCHED,
            f"cannot watch {vertex.identity}{others}: {why}; drift there is not noticed until its watch works again",
        )

    @property
    def host_id(self) -> str:
        """Name of this host."""
        return str(self._host.facts.get("id") or self._settings.id or socket.gethostname())

    # -- output -----------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Send the line of the status to systemd."""
        self._notifier.status(self._logs.redactor(self.summary()))

    def with_rows(self, most: int | None) -> dict[str, Any]:
        """Return the agent and its health, ready for JSON, with an iterator over the rows of its resources.

        `most` limits the rows and adds the number of resources in each state; None means all rows.
        """
        counts = {} if most is None else {"counts": dict(self._engine.view.census.states())}
        return {**self.state(), **counts, "resources": rows(lambda: self._engine.view, most)}

    def state(self) -> dict[str, Any]:
        """Return the agent and its health."""
        working = BROKEN not in self._conditions
        applied = self._reloaded is not None
        agent = {
            "pid": os.getpid(),
            "version": __version__,
            "id": self.host_id,
            "started": self._started,
            "states": str(self._settings.states),
            "noop": self._settings.engine.noop,
            "paused": self._engine.paused,
            "pauses": self._logs.redactor([paused(each) for each in self._engine.pauses]),
            "reload": {"successful": working, "at": self._reloaded},
            "converged": self._engine.converged and applied and working,
            "status": self.summary(),
        }
        agent["stuck"] = not agent["converged"] and (not working or (applied and self._engine.stuck))
        health = [
            {"code": c.code, "severity": c.severity, "text": c.text, "since": c.since} for c in self._health.conditions
        ]
        plugins = {} if self._host.plugins is None else {"plugins": self._logs.redactor(self._host.plugins.state())}
        return {**agent, **plugins, "health": health}

    def summary(self) -> str:
        """Return the state of the agent in one line."""
        if BROKEN in self._conditions:
            return self._conditions[BROKEN].text
        if self._reloaded is None:
            return "starting: the states are being read"
        if self._engine.going_down:
            return "the system is shutting down: nothing is repaired"
        wrong = self._wrong()
        if self._engine.paused:
            said = next((each.said for each in self._engine.pauses if not each.pattern), "paused")
            return f"{said}: drift is noticed, nothing is repaired{wrong and '; '}{wrong}"
        if wrong:
            return wrong
        noop = " (noop: nothing is changed)" if self._engine.options.noop else ""
        state = "converged" if self._engine.converged else "at work"
        return f"{state}: {number_of(self._resources, 'resource')}{noop}"

    def _wrong(self) -> str:
        """Return how many resources are not as declared, or not watched; empty if there are none."""
        view, total = self._engine.view, number_of(self._resources, "resource")
        counted = {
            "failed or wait for a failed one": len(self._failing),
            "drifted (paused)": sum(view.policy.known_paused(vertex) for vertex in view.differing),
            "would be changed (noop)": sum(not view.policy.known_paused(vertex) for vertex in view.differing),
            "not watched": len(view.unwatched),
        }
        return "; ".join(f"{number} of {total} {what}" for what, number in counted.items() if number)
