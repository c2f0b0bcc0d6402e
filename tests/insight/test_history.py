"""The last outcomes of a resource: which are kept, and how much memory they use."""

from __future__ import annotations

import tracemalloc
from typing import Any

from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.insight.history import COMMENT, KEPT, RECENT, RESOURCES, History
from holdfast.resources.effects import Effect


def outcome(identity: str = "file.managed[x]", **values: Any) -> Outcome:
    """Return an outcome that repaired something, unless the values say otherwise."""
    return Outcome(identity, 0, **{"result": True, "changes": {"a": 1}, "cause": "drift", **values})


def told(*outcomes: Outcome) -> list[tuple[str, int]]:
    """Return the kept entries, newest first: what happened, and how often."""
    history = History()
    for number, each in enumerate(outcomes):
        history.tell(each, float(number))
    return [(entry["what"], entry["times"]) for entry in history.of("file.managed[x]")]


def test_a_check_without_a_difference_is_not_kept() -> None:
    """A skipped run is not kept, either: an idle graph uses no memory."""
    history = History()
    history.tell(outcome(changes={}), 1.0)
    history.tell(outcome(changes={}, ran=False, reason="onlyif"), 2.0)

    assert len(history) == 0
    assert not history.recent


def test_outcomes_are_kept_in_words() -> None:
    """Changed, failed, blocked, would change, and recovered after a failure."""
    kept = told(
        outcome(cause="start", effect=Effect(("create",), "x")),
        outcome(),
        outcome(result=None),
        outcome(result=False, changes={}, ran=False, reason="requisite_failed"),
        outcome(result=False, changes={}, comment="no"),
        outcome(changes={}),
        outcome(changes={}),
    )

    assert [what for what, _ in kept] == ["recovered", "failed", "blocked", "would repair", "repaired", "created"]


def test_a_failure_that_is_retried_all_night_is_one_entry() -> None:
    """The entry counts the attempts, and displaces no other entry."""
    failed = [outcome(result=False, changes={}, comment="no", cause=cause) for cause in ("retry", "retry", "recheck")]

    assert told(outcome(), outcome(), *failed * 300) == [("failed", 900), ("repaired", 1), ("repaired", 1)]


def test_the_latest_outcomes_of_all_resources() -> None:
    """Repeated failures do not displace the repairs of others; their number is limited."""
    history = History()
    history.tell(outcome("file.managed[y]"), 1.0)
    for number in range(100):
        history.tell(outcome(result=False, changes={}, comment="no", cause="retry"), float(number))

    assert [(identity, what, entry.times) for (identity, what), entry in history.recent.items()] == [
        ("file.managed[y]", "repaired", 1),
        ("file.managed[x]", "failed", 100),
    ]
    for number in range(RECENT):
        history.tell(outcome(f"file.managed[{number}]"), 200.0)
    assert len(history.recent) == RECENT


def test_only_the_last_entries_are_kept() -> None:
    """Entries of one resource (ten), resources and characters are limited."""
    history = History(resources=3)
    for number in range(15):
        history.tell(outcome(comment=f"{number} " + "x" * 1000), 0.0)
    entries = history.of("file.managed[x]")

    assert [entry["comment"].split()[0] for entry in entries] == [str(number) for number in range(14, 14 - KEPT, -1)]
    assert all(len(entry["comment"]) == COMMENT for entry in entries)
    for name in "abc":
        history.tell(outcome(name), 0.0)
    assert len(history) == 3
    assert history.of("file.managed[x]") == []


def test_memory_is_limited_and_small() -> None:
    """A resource with all its entries, all with different long comments, uses less than 5 KB."""
    history, names = History(), [f"file.managed[/srv/{number}]" for number in range(500)]
    tracemalloc.start()
    for name in names:
        for number in range(KEPT * 2):
            history.tell(outcome(name, comment=f"{name} {number} " + "x" * 100, duration=number + 0.5), number + 0.5)
    used = tracemalloc.get_traced_memory()[0] / len(names)
    tracemalloc.stop()

    assert used < 5000
    assert used * RESOURCES < 10_000_000
