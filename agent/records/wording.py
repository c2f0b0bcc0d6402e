"""Records as text, as in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.agent.console import clock
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.narrate import details, duration
from holdfast.resources.visible import clean


def change_in_words(values: Mapping[str, Any], author: str = "") -> str:
    """Return a line with the resource, the duration, the cause and, if it is known, the author."""
    words = [values["cause"]]
    words += [f"{values['times']} times until {clock(values['at'])}"] if values.get("times", 1) > 1 else []
    words += [values["undone"]] if values.get("undone") else []
    why = [", ".join(words), str(values.get("ended") or ""), f"changed by {author}" if author else ""]
    return f"{values['resource']} in {duration(values.get('duration', 0.0))} ({'; '.join(filter(None, why))})"


def details_of(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the diff and the other differences, as the log shows them."""
    outcome = Outcome(
        values["resource"],
        0,
        values["result"] != "failed",
        changes=values.get("changes") or {},
        diff=str(values.get("diff") or ""),
    )
    return (clean(line) for line in details(outcome))
