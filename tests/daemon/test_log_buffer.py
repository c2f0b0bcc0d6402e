"""The log buffer keeps the newest entries, within a limited size."""

from __future__ import annotations

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.log_buffer import CUT, ROOM, TEXT, LogBuffer, _size


def test_the_newest_entries_are_kept_in_order() -> None:
    """The number of entries is that of the settings, which may be 0."""
    buffer = LogBuffer(2)
    for name in "abc":
        buffer.append({"event": name})

    assert [entry["event"] for entry in buffer] == ["b", "c"]
    buffer.resize(0)
    assert list(buffer) == []


def test_the_age_of_entries_does_not_depend_on_the_system_clock() -> None:
    """The time of an entry does not show its age: the system clock may be set to any date."""
    buffer, elapsed = LogBuffer(10), iter((5000.0, 5010.0, 5020.0))
    buffer.elapsed = lambda: next(elapsed, 5025.0)
    assert buffer.reach == 0
    for time in (90.0, 1.8e9, 1.7e9):
        buffer.append({"time": time})

    assert [entry["time"] for entry in buffer.since(20)] == [1.8e9, 1.7e9]
    assert [entry["time"] for entry in buffer.since(5)] == [1.7e9]
    assert buffer.reach == 25


class Word(str):
    """A text of another type than Python's own."""

    __slots__ = ()


def test_entries_are_returned_as_they_were_added() -> None:
    """Entries may have surrogates, circular references, errors, or values of types without a compact form."""
    circle: list[object] = []
    circle.append(circle)
    odd = {"event": Word("a"), "changes": MappingProxyType({"x": 1}), "exc_info": ValueError("b")}
    entries = [{"event": "caf\udce9 \0", "changes": {"x": (1, 2.5, None, True)}, 5: {b"y"}}, odd, {"event": circle}]
    buffer = LogBuffer(10)
    for entry in entries:
        buffer.append(entry)
    circle.append("later")

    found = list(buffer)
    assert found[0] == entries[0]
    assert found[1] is odd
    assert found[2]["event"][0][0] is found[2]["event"][0]


def test_long_texts_are_cut_and_the_oldest_entries_removed() -> None:
    """The limit holds for commands that print megabytes again and again, in whatever field."""
    buffer = LogBuffer(500)
    for number in range(200):
        buffer.append(
            {
                "event": f"ran {number}",
                "changes": {"stdout": "y\n" * 500_000, "lines": ["z" * TEXT * 2]},
                "duration": 0.1,
            }
        )

    entries = list(buffer)
    assert sum(map(_size, entries)) <= ROOM
    assert 20 < len(entries) < 200
    assert entries[-1]["event"] == "ran 199"
    assert entries[-1]["changes"]["stdout"] == ("y\n" * TEXT)[:TEXT] + CUT
    assert entries[-1]["changes"]["lines"] == ["z" * TEXT + CUT]


@given(st.lists(st.integers(0, ROOM // 2)), st.integers(0, 20))
def test_the_buffer_never_exceeds_its_size(lengths: list[int], limit: int) -> None:
    """Entries without a long text are kept as they are."""
    buffer = LogBuffer(limit)
    for length in lengths:
        buffer.append({"event": "x" * length})

    assert sum(map(_size, buffer)) <= ROOM
    assert len(list(buffer)) <= limit
    assert [len(entry["event"]) for entry in buffer] == [
        min(length, TEXT + len(CUT)) if length > TEXT else length for length in lengths
    ][len(lengths) - len(list(buffer)) :]
