"""The last line of a one-shot run: results by number of resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.agent.engine.model.outcome import Outcome, result_of
from holdfast.agent.narrate import duration
from holdfast.resources.effects import Counted

SORTS: tuple[Counted, ...] = ("created", "changed", "replaced", "removed")
"""The effects on a resource that the line counts."""


def tally(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the result: `converged in 2.1 s: 3 created, 5 changed, 1 removed, 16 ok`. Each resource counts once."""
    last = {outcome.identity: outcome for outcome in outcomes}
    changed = {outcome.identity: outcome for outcome in reversed(outcomes) if result_of(outcome) == "changed"}
    counts = _counts(last, changed)
    told = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    return f"{_state(counts, changed=bool(changed))} in {duration(seconds)}: {told or 'nothing to do'}"


def _counts(last: Mapping[str, Outcome], changed: Mapping[str, Outcome]) -> dict[str, int]:
    """Return the number of resources of each result, in the order of the line."""
    words = [result_of(outcome) for outcome in last.values()]
    done = Counter(_sort(outcome) for outcome in changed.values())
    would = Counter(_sort(outcome) for outcome in last.values() if result_of(outcome) == "would-change")
    waiting = sum(outcome.blocked for outcome in last.values())
    return {
        **{what: done[what] for what in SORTS},
        "would be created": would["created"],
        "would change": would["changed"],
        "would be replaced": would["replaced"],
        "would be removed": would["removed"],
        "unknown": words.count("unknown"),
        "failed": words.count("failed"),
        "skipped because of that": waiting,
        "skipped": words.count("skipped") - waiting,
        "ok": sum(result_of(outcome) == "ok" and identity not in changed for identity, outcome in last.items()),
    }


def _state(counts: Mapping[str, int], *, changed: bool) -> str:
    """Return the state of the host in one or two words."""
    differ = any(number for what, number in counts.items() if what.startswith("would ") or what == "unknown")
    if counts["failed"] or counts["skipped because of that"] or (differ and changed):
        return "not converged"
    return "checked" if differ else "converged"


def _sort(outcome: Outcome) -> Counted:
    """Return the effect of an outcome, as the line counts it. A refresh counts as a change."""
    return "changed" if outcome.effect is None or outcome.refreshed else outcome.effect.counted
