"""Describes the engine's events in sentences: one line, or none, for each. It remembers only which resources failed.

`repaired file.managed[motd] in 3 ms (drift)`: verb, identity, duration, cause. The same values are fields of the entry,
for journald and for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from holdfast.agent.engine.model.events import (
    Event,
    Interrupted,
    Notice,
    PassEnded,
    PassRecord,
    PassStarted,
    Ran,
    Started,
)
from holdfast.agent.engine.model.outcome import Outcome, result_of
from holdfast.agent.engine.model.tally import Tally
from holdfast.agent.phrases import as_declared
from holdfast.resources.context import CUT
from holdfast.resources.effects import EffectVerb, phrase
from holdfast.resources.secrets import MASK
from holdfast.resources.visible import escaped, worded

Level = Literal["debug", "info", "warning", "error"]

NOTHING: tuple[Any, ...] = ("", None, (), [])
HIDDEN = {"old": MASK, "new": MASK}
"""The change of a secret."""
DETAIL_LINES = 400
"""Most lines of details (diff, output of a command) in one line of the log."""
_SEEN = ("start", "states changed", "grains changed")
"""Causes of the first run of a declaration: the log then also mentions resources that are skipped."""
_EDITED = ("states changed", "grains changed")
"""Causes after an edit: the log then also mentions resources that are as declared. At a start, the line on the pass
says how many there are: one line for each would take a third of the first pass, and journald drops lines beyond 10 000
in 30 s."""


class LogLine(NamedTuple):
    """One line of the log."""

    level: Level
    text: str
    fields: Mapping[str, Any] = {}
    """resource, pass, what (the verb), result, cause, duration (seconds), changes, diff, details: those that apply."""


class Narrator:
    """Turns events into lines; remembers which resources fail, and whether the last line on a pass was a failure."""

    def __init__(self, unsaid: str = "") -> None:
        self._failing: dict[str, str] = {}
        self._troubled = self._news = False
        """Whether the last line on a pass was a failure, and whether something has failed in another way since."""
        self._unsaid = unsaid
        """A cause that lines do not mention."""

    def tell(self, event: Event, *, debug: bool = True) -> LogLine | None:
        """Return the line for one event; None if it needs none.

        Without `debug`, checks that found nothing new and starts of passes need none.
        """
        match event:
            case Ran(number, outcome):
                return self._ran(number, outcome, debug=debug)
            case PassEnded(record):
                return self._ended(record)
            case Interrupted(outcome):
                return _interrupted(outcome)
            case PassStarted(number, cause):
                return (
                    LogLine(
                        "debug",
                        f"pass {number} begins ({cause})",
                        {"code": "pass-began", "pass": number, "cause": cause},
                    )
                    if debug
                    else None
                )
            case Notice():
                return _notice(event)
            case Started():
                return None

    def _ended(self, record: PassRecord) -> LogLine:
        """Return the end of a pass: whether the host is converged, and the work done.

        The first convergence after a failed pass is logged even if nothing was changed, so that a reader of the log
        knows how the failure ended. A retry that fails as before is no news.
        """
        text = f"{summary(record.tally, record.duration, record)} (pass {record.number}, {record.cause})"
        fields = {
            "code": "pass-ended",
            "pass": record.number,
            "cause": record.cause,
            "duration": round(record.duration, 6),
            "converged": record.converged,
        }
        recovered, again = self._troubled and record.converged, self._troubled and not self._news
        self._troubled = (self._troubled or record.tally.any_failed) and not record.converged
        worth = recovered or record.asked or record.cause in (*_SEEN, "command") or record.tally.any_changed
        if record.tally.any_failed and (worth or not again):
            self._news = False
            return LogLine("warning", text, fields)
        return LogLine("info" if worth else "debug", text, fields)

    def _ran(self, number: int, outcome: Outcome, *, debug: bool) -> LogLine | None:
        level, what = self._judged(outcome)
        if level == "debug" and not debug:
            return None
        fields: dict[str, Any] = {
            "pass": number,
            "resource": outcome.identity,
            "what": what,
            "result": result_of(outcome),
            "cause": outcome.cause,
        }
        if outcome.ran:
            fields["duration"] = round(outcome.duration, 6)
        if outcome.changes:
            fields["changes"] = outcome.changes
            fields["details"] = "\n".join(details(outcome))
        if outcome.diff:
            fields["diff"] = outcome.diff
        if outcome.because:
            fields["because"] = list(outcome.because)
        if outcome.undone:
            fields["undone"] = outcome.undone
        if outcome.public:
            fields["public"] = True
        if outcome.by:
            fields["by"] = outcome.by.fields()
        if outcome.ended:
            fields["ended"] = outcome.ended
        return LogLine(level, self._sentence(what, outcome), fields)

    def _judged(self, outcome: Outcome) -> tuple[Level, str]:
        """Return the level of an outcome, and its description in one or two words."""
        identity, first = outcome.identity, outcome.cause in _SEEN
        if result_of(outcome) == "failed":
            again = self._failing.get(identity) == outcome.comment
            self._failing[identity] = outcome.comment
            self._news = self._news or not again
            return ("info", "still failing") if again else ("error", "failed")
        recovered = self._failing.pop(identity, None) is not None and outcome.result is True
        if outcome.undecided:
            return ("info" if first or outcome.ran else "debug"), "unknown"
        if not outcome.ran:
            return ("info" if first or outcome.blocked else "debug"), "skipped"
        if outcome.changed or outcome.refreshed:
            return "info", verb(outcome)
        if recovered:
            return "info", "recovered"
        return ("info" if outcome.cause in _EDITED else "debug"), "ok"

    def _sentence(self, what: str, outcome: Outcome) -> str:
        """Return the verb, identity, duration and cause; also the comment, unless the details contain it."""
        if what == "skipped":
            return skipped(outcome)
        if what == "unknown":
            return _unknown(outcome)
        words: list[str] = [outcome.cause] if outcome.cause != self._unsaid else []
        words += [outcome.undone] if outcome.undone else []
        words += [f"{outcome.attempts} attempts"] if outcome.attempts > 1 else []
        why = "; ".join([*([", ".join(words)] if words else []), *_origin(outcome)])
        why = f" ({why})" if why else ""
        if what == "ok":
            return f"ok {outcome.identity}" + ("" if _is_plain(outcome) else f": {outcome.comment}")
        if outcome.result is None:
            return _noop(outcome) + why
        text = f"{_done(what, outcome)}{f' in {duration(outcome.duration)}' if outcome.ran else ''}{why}"
        told = outcome.changes and outcome.result is not False
        text = text if told or not outcome.comment else f"{text}: {outcome.comment}"
        return text + _at(outcome)


def _interrupted(outcome: Outcome) -> LogLine:
    fields: dict[str, Any] = {"resource": outcome.identity, "what": "interrupted", "cause": outcome.cause}
    if outcome.changes:
        fields |= {"changes": outcome.changes, "details": "\n".join(details(outcome))}
    return LogLine("warning", f"interrupted {outcome.identity}: {outcome.comment}", fields)


def _origin(outcome: Outcome) -> Iterator[str]:
    """Yield what has caused the drift that the run has found, as far as it is known."""
    if outcome.ended:
        yield outcome.ended
    if outcome.by:
        yield f"changed by {outcome.by}"


def verb(outcome: Outcome) -> str:
    """Return what was done, in one word; `would ...` for what would be done."""
    return phrase(_verb(outcome), applied=outcome.result is not None)


def _verb(outcome: Outcome) -> EffectVerb:
    """Return the verb of an outcome; `refresh` or `repair` if the cause says more than the verb of the kind.

    To replace a thing deletes it, so no cause says more.
    """
    own: EffectVerb = outcome.effect.verbs[0] if outcome.effect else "change"
    if outcome.refreshed:
        return "refresh"
    return "repair" if outcome.cause in ("drift", "poll", "recheck") and own not in ("run", "replace") else own


def _id(outcome: Outcome) -> str:
    return outcome.identity.partition("[")[2].removesuffix("]")


def _is_plain(outcome: Outcome) -> bool:
    """Return whether the comment adds nothing to the identity and "ok"."""
    return outcome.comment in ("", as_declared(_id(outcome)))


def _unknown(outcome: Outcome) -> str:
    """Return what an unknown outcome waits for; the comment begins with "unknown" as well."""
    why = outcome.comment.removeprefix("unknown ")
    return f"unknown {outcome.identity}{' ' if why.startswith('until ') else ': '}{why}"


def _done(what: str, outcome: Outcome) -> str:
    """Return the effect, with the identity instead of the thing: `linked file.symlink[/a] to /b`."""
    effect = outcome.effect
    if effect is None or outcome.result is False or what != phrase(effect.verbs[0], applied=True):
        return f"{what} {outcome.identity}"
    parts = effect.parts if effect.verbs[0] == "remove" else ""  # else the details name them
    return effect._replace(parts=parts).sentence(applied=True, what=outcome.identity)


def _noop(outcome: Outcome) -> str:
    """Return the expected effect, with the identity instead of the thing; then the comment, if it says more."""
    effect = outcome.effect
    if effect is None:
        return f"would change {outcome.identity}" + (f": {outcome.comment}" if outcome.comment else "")
    text = effect.sentence(applied=False, what=outcome.identity)
    return text if outcome.comment in ("", effect.sentence(applied=False)) else f"{text}: {outcome.comment}"


def _at(outcome: Outcome) -> str:
    """Return the file and the line of the state of a failure."""
    return f" ({outcome.at})" if outcome.result is False and outcome.at else ""


def skipped(outcome: Outcome) -> str:
    """Return why a resource did not run. A failure that caused it has its own line."""
    if outcome.because and outcome.blocked:
        return f"skipped {outcome.identity} because of {', '.join(outcome.because)}{_at(outcome)}"
    return f"skipped {outcome.identity}: {outcome.comment or outcome.reason}"


def details(outcome: Outcome) -> Iterator[str]:
    """Yield the diff, then each other change that is news to a person, one per line; at most `DETAIL_LINES`."""
    lines = outcome.diff.rstrip("\n").split("\n") if outcome.diff else []
    for name, change in outcome.changes.items():
        if not is_told(name, change, outcome):
            lines.extend(_change(name, change))
    yield from lines[:DETAIL_LINES]
    if len(lines) > DETAIL_LINES:
        cut = any(line.endswith(CUT) for line in lines[DETAIL_LINES:])
        yield f"[{len(lines) - DETAIL_LINES} more lines{', and output that was cut' if cut else ''}]"


def is_told(name: str, change: Any, outcome: Outcome) -> bool:
    """Return whether a change repeats what the line says, or is only of interest to programs."""
    things = (_id(outcome), outcome.effect.what if outcome.effect else "")
    failed = outcome.result is False and outcome.changes.get("retcode") not in (0, None)
    match name:
        case "diff":
            return bool(outcome.diff)
        case "new" | "newfile" | "cmd":
            return bool(change == things[0])
        case "pid":
            return True
        case "retcode":
            return failed or change == 0
        case "stdout" | "stderr" if failed:
            # The error of a command contains the last line of its errors or, if there are none, of its output.
            return "\n" not in str(change).strip("\n") and (name == "stderr" or not outcome.changes.get("stderr"))
    return (change is True or change == {"directory": "new"}) and name in things


def _change(name: str, change: Any) -> Iterator[str]:
    name = escaped(name)  # a user may have chosen the name
    if change == HIDDEN:
        yield f"{name}: changed"
    elif isinstance(change, Mapping) and set(change) == {"old", "new"}:
        yield f"{name}: {value_in_words(change['old'])} -> {value_in_words(change['new'])}"
    elif isinstance(change, Mapping):
        if parts := [f"{key} {value_in_words(value)}" for key, value in change.items() if not _is_diff(key, value)]:
            yield f"{name}: {', '.join(parts)}"
    elif isinstance(change, str) and "\n" in change.rstrip("\n"):
        yield f"{name}:"
        yield from (f"  {line}" for line in change.rstrip("\n").split("\n"))
    elif change not in NOTHING:
        yield f"{name}: {value_in_words(change)}"


def _is_diff(name: str, change: Any) -> bool:
    """Return whether this is the diff of one of several files, which is part of the whole diff."""
    return name == "diff" and "\n" in str(change).rstrip("\n")


def value_in_words(value: Any) -> str:
    """Return a value of a change as people read it in a state file; at most 200 characters."""
    if value in NOTHING:
        return "none"
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(worded, value))
    text = value.rstrip("\n") if isinstance(value, str) else worded(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def summary(tally: Tally, seconds: float, record: PassRecord | None = None) -> str:
    """Return the result of a whole run: converged or not (or only checked), duration, counts. A resource counts once.

    `record` is the pass of a daemon: other resources may still be failing, and the pass may have been interrupted.
    """
    waiting, failed, would, unknown = (
        tally.blocked,
        tally.count("failed"),
        tally.count("would-change"),
        tally.count("unknown"),
    )
    counts = {
        "checked": tally.ran,
        "changed": len(tally.changed),
        "would change": would,
        "unknown": unknown,
        "failed": failed,
        "skipped because of that": waiting,
        "skipped": tally.count("skipped") - waiting,
        "still failing": max(0, record.failing - failed - waiting) if record else 0,
        "would still change": max(0, record.differing - would - unknown) if record else 0,
    }
    told = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    if record and record.broken_off:
        return f"interrupted after {duration(seconds)}: {told or 'nothing was finished'}"
    wrong = failed or waiting or counts["still failing"]
    differ = would or unknown or counts["would still change"]
    state = "not converged" if wrong or (differ and counts["changed"]) else "checked" if differ else "converged"
    return f"{state} in {duration(seconds)}: {told or 'nothing to do'}"


def _notice(notice: Notice) -> LogLine:
    text = notice.text if notice.named or not notice.identity else f"{notice.identity}: {notice.text}"
    fields: dict[str, Any] = {"code": notice.code}
    if notice.identity:
        fields["resource"] = notice.identity
    if notice.error is not None:
        fields["exc_info"] = notice.error
    return LogLine(notice.level, text, fields)


def duration(seconds: float) -> str:
    """Return a time span for people: `<0.1 ms`, `0.4 ms`, `35 ms`, `1.2 s`, `3 min 5 s`."""
    if seconds < 0.00005:
        return "<0.1 ms"
    if seconds < 0.001:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
