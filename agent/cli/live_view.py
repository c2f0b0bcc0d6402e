"""The display of `watch`: the graph of the running agent as it converges, live in the terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from holdfast.agent.cli.screen import Screen
from holdfast.agent.cli.terminal import SEVERITIES, Paper, ago, headline
from holdfast.agent.console import clock, coloured
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.model.states import QUIET, urgency
from holdfast.agent.narrate import duration
from holdfast.agent.widths import columns

TICK = 0.1
"""Seconds between two frames."""
RECENT = 8
"""Most repairs shown."""
CONDITIONS = 3
"""Most conditions of the agent shown."""
MOST = 8
"""Most lines about a problem of one resource; `why` shows all."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MARKS = {
    "ok": "✓",
    "failed": "✗",
    "blocked": "⊘",
    "waiting": "…",
    "skipped": "-",
    "superseded": "-",
    "drifted": "~",
    "would": "~",
    "flapping": "↯",
    "unwatched": "?",
}

Frame = dict[str, Any]


def show(frames: Iterator[Frame]) -> None:
    """Draw frames until the user ends the display. Raises `ControlError` if the agent disconnects."""
    feed = Feed(frames)
    feed.first()
    with Screen().opened() as screen:
        tick = 0
        while not feed.error and screen.key(TICK) not in ("q", "Q", "\x03", "\x1b"):
            width, height = screen.size
            screen.draw(list(picture(feed.frame, Paper(width, colour=coloured(1)), height, tick)))
            tick += 1
    if feed.error:
        raise feed.error


class Feed:
    """Frames of one agent, received in a thread; only the latest counts."""

    def __init__(self, frames: Iterator[Frame]) -> None:
        self.frame: Frame = {}
        self.error: ControlError | None = None
        self._come = threading.Event()
        self._frames = frames
        threading.Thread(target=self._read, name="frames", daemon=True).start()

    def first(self) -> None:
        """Wait for the first frame. Raises `ControlError` if the agent cannot be asked."""
        self._come.wait()
        if self.error:
            raise self.error

    def _read(self) -> None:
        try:
            for frame in self._frames:
                self.frame = frame
                self._come.set()
            self.error = ControlError("the agent has stopped")
        except ControlError as error:
            self.error = error
        self._come.set()


def picture(frame: Frame, paper: Paper, height: int, tick: int) -> Iterator[str]:
    """Yield the lines of one frame: at most `height`, none wider than the paper. `tick` turns the spinner."""
    recent = list(_recent(frame, paper))[: max(0, (height - 4 - len(frame["health"][:CONDITIONS])) // 3)]
    below = ["", paper.dim(paper.line("latest")), *recent] if recent else []
    room = height - len(below) - 1
    top = [*_head(frame, paper, tick), *_health(frame, paper, room - 4 - len(frame["rows"]) - bool(_hidden(frame))), ""]
    lines = [*top, *_rows(frame, paper, room - len(top), tick)]
    lines += [""] * (room - len(lines))
    lines += below
    yield from lines[: height - 1]
    yield paper.dim(paper.line("q ends; `holdfast why KIND[ID]` shows more about one resource"))


def _head(frame: Frame, paper: Paper, tick: int) -> Iterator[str]:
    """Yield the agent, the pass and the counts: three lines."""
    counts, colour = frame["counts"], "1;32" if frame["converged"] else "1;33"
    noop = " [noop: nothing is changed]" if frame["noop"] else ""
    name = paper.line(f"{frame['id']}: ")
    yield paper.bold(name) + paper.paint(colour, paper.line(f"{headline(frame)}{noop}", columns(name)))
    yield paper.line(_pass(frame["pass"], tick))
    yield _bar(counts, paper)


def _health(frame: Frame, paper: Paper, room: int) -> Iterator[str]:
    """Yield the problems of the agent itself: one line each, and up to `spare` more lines if there is room."""
    conditions = frame["health"][:CONDITIONS]
    spare = max(0, room - len(conditions))
    for each in conditions:
        lines = paper.lines(f"{each['severity']}: {each['text']} [{each['code']}]", most=1 + spare)
        spare -= len(lines) - 1
        yield from (paper.paint(SEVERITIES[each["severity"]], line) for line in lines)


def _pass(last: Frame | None, tick: int) -> str:
    if last is None:
        return "no pass yet"
    name = f"pass {last['number']}, {last['cause']}"
    if last["running"]:
        return f"{_spin(tick)} {name}: {last['done']} done in {duration(last['for'])}"
    return f"{last['text']} ({name}), {ago(last['at'])}"


def _bar(counts: Frame, paper: Paper) -> str:
    """Return the settled part of the graph as a bar, and counts of the rest."""
    total, others = (
        counts["resources"],
        [(word, number) for word, number in counts.items() if word != "resources" and number],
    )
    parts = [("ok", max(0, total - sum(number for _, number in others))), *others]
    text = ", ".join(f"{number} {word}" for word, number in parts)
    width = min(40, (paper.width or 80) - columns(text) - 2)
    if width < 8 or not total:
        return paper.line(text)
    lengths = [number * width // total or (number > 0) for _, number in parts]
    lengths[lengths.index(max(lengths))] += width - sum(lengths)
    bar = "".join(paper.state(word, "█" * length) for (word, _), length in zip(parts, lengths, strict=True))
    return f"{bar}  {text}"


def _rows(frame: Frame, paper: Paper, room: int, tick: int) -> Iterator[str]:
    """Yield resources: problems first, else in order of execution.

    If there is little room, comments of problems come before resources without problems.
    """
    rows, left = sorted(frame["rows"], key=lambda row: urgency(row["state"])), int(frame["counts"]["resources"])
    width = min(
        max((columns(row["identity"]) for row in rows), default=0), max(20, ((paper.width or 80) - 13) * 6 // 10)
    )
    wrong = sum(row["state"] not in QUIET for row in rows)
    spare = max(0, room - wrong - (left > wrong))
    for row in rows:
        if room < min(left, 2):
            break
        state = row["state"]
        mark = _spin(tick) if state == "running" else MARKS.get(state, " ")
        said = duration(row["for"]) if row.get("for") is not None else row.get("comment", "")
        first, *rest = paper.lines(said, 14 + width, min(MOST, 1 + spare))
        spare, room, left = spare - len(rest), room - 1 - len(rest), left - 1
        name = _name(row["identity"], width if said else (paper.width or 80) - 13, paper)
        yield f"{paper.state(state, f'{mark} {state:9}')} {name}  {paper.dim(first)}".rstrip()
        yield from (" " * (14 + width) + paper.dim(line) for line in rest)
    if left > 0 and room > 0:
        yield paper.dim(f"and {left} more")


def _hidden(frame: Frame) -> int:
    """Return the number of resources that the agent has not sent."""
    return int(frame["counts"]["resources"]) - len(frame["rows"])


def _recent(frame: Frame, paper: Paper) -> Iterator[str]:
    """Yield changes and failures, newest first."""
    for entry in reversed(frame["recent"][-RECENT:]):
        at = clock(entry["at"])
        times = f", {entry['times']} times" if entry["times"] > 1 else ""
        took, width = f"{duration(entry['duration'])} ({entry['cause']}{times})", paper.width or 80
        took = took if width >= 60 else ""
        width -= 13 + columns(at) + columns(took)
        what, name = entry["what"], _name(entry["identity"], width, paper).rstrip()
        yield f"{paper.dim(at)} {paper.state(what, what.ljust(10))} {name} {paper.dim(took)}"


def _name(identity: str, width: int, paper: Paper) -> str:
    """Return an identity in a number of columns; the ID alone if the identity is longer."""
    kind, bracket, name = identity.partition("[")
    return paper.name(name.removesuffix("]") if kind and bracket and columns(identity) > width else identity, width)


def _spin(tick: int) -> str:
    return SPINNER[tick % len(SPINNER)]
