"""The metrics of path watches."""

from __future__ import annotations

from holdfast.agent.host.overflows import Overflows
from holdfast.agent.insight.metrics import family


def watch_metrics(overflows: Overflows) -> str:
    """Return the metrics of the path watches of a host."""
    text = "How often the kernel has lost events of paths, after which all affected paths are checked, since the start."
    return "".join(
        f"{line}\n" for line in family("holdfast_watch_overflows_total", "counter", text, [("", (), overflows.number)])
    )
