"""Metrics of plugins. Their labels are names of packages; there are few packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.agent.insight.metrics import Sample, family

if TYPE_CHECKING:
    from holdfast.agent.plugins.plugins import Plugins


def plugin_metrics(plugins: Plugins) -> str:
    """Return the metrics of all plugins in text form."""
    return "".join(f"{line}\n" for each in _families(plugins) for line in each)


def _families(plugins: Plugins) -> Iterator[Iterator[str]]:
    states, counts = plugins.state(), plugins.counts
    up: list[Sample] = [("", (("plugin", each["name"]),), int(each["state"] == "running")) for each in states]
    yield family("holdfast_plugin_up", "gauge", "1: the plugin runs. One that nothing needs is stopped.", up)
    restarts: list[Sample] = [("", (("plugin", each["name"]),), each["restarts"]) for each in states]
    text = "Starts after an unexpected end of the plugin, or after a start that has failed."
    yield family("holdfast_plugin_restarts_total", "counter", text, restarts)
    for name, text, label, counter in (
        ("calls", "Calls of the plugin.", "method", counts.calls),
        ("failures", "Calls that the plugin has refused, or not answered (transport).", "code", counts.failures),
    ):
        samples: list[Sample] = [
            ("", (("plugin", plugin), (label, value)), number) for (plugin, value), number in sorted(counter.items())
        ]
        yield family(f"holdfast_plugin_{name}_total", "counter", text, samples)
    seconds: list[Sample] = [("", (("plugin", name),), number) for name, number in sorted(counts.seconds.items())]
    yield family("holdfast_plugin_call_seconds_total", "counter", "Time of all calls together.", seconds)
