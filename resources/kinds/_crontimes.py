"""Times of cron jobs: the five fields of crontab(5), and the words that replace them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from holdfast.resources.accepts import accepts
from holdfast.resources.spelling import nearest

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SPECIAL = ("@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
PART = re.compile(r"(?P<low>\*|\w+)?(?:(?P<range>[-~])(?P<high>\w+)?)?(?:/(?P<step>\w+))?")
"""Matches one part of a field: a number, a range or `*`, possibly with a step.

`~` means a random value in a range; not every cron supports it.
"""


@accepts(str, numbers=True, pattern=r"[\w:*/,~-]+")
def parse_time(value: object) -> object:
    """Return a field of time as text in lower case. `1:30`, which YAML reads as the number 90, stays as written."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    written = getattr(value, "written", "")
    return written if ":" in written else str(value).lower()


def _within(first: int, last: int, names: Sequence[str] = ()) -> AfterValidator:
    """Return a validator for `Annotated` that refuses the values that cron refuses.

    The values of the field are the numbers from `first` to `last` or these names.
    """
    known = {name: first + number for number, name in enumerate(names)}
    named = f", {names[0]} to {names[-1]}" if names else ""
    takes = (
        f"it takes {first} to {last}{named}, *, ranges such as {first}-{first + 4}, "
        "steps such as */2, lists of these, or random"
    )

    def check(value: str) -> str:
        if value != "random":
            for part in value.split(","):
                if (why := _wrong(part, first, last, known)) is not None:
                    raise ValueError(f"{value!r} is not a time: {why}; {takes}")
        return value

    return AfterValidator(check)


def _wrong(part: str, first: int, last: int, names: Mapping[str, int]) -> str | None:
    """Return why a part of a field is invalid; None if it is valid."""
    found = PART.fullmatch(part)
    if found is None or (not found["low"] and found["range"] != "~"):
        return f"{part!r} cannot be parsed"
    step = found["step"]
    if why := _misplaced(part, found, last) or _outside(part, found, first, last, names):
        return why
    if step and not (step.isdigit() and 1 <= int(step) <= last):
        return f"a step is a number from 1 to {last}, not {step}"
    return None


def _misplaced(part: str, found: re.Match[str], last: int) -> str | None:
    """Return why the operators (`-`, `~`, `/`) of a part cannot be combined; None if they can."""
    low, sign, high, step = found["low"], found["range"], found["high"], found["step"]
    if (low == "*" and sign) or (sign == "-" and not high) or (step and low != "*" and not sign):
        return f"{part!r} cannot be parsed" if sign else f"a step needs * or a range, as in {low}-{last}/{step}"
    return None


def _outside(part: str, found: re.Match[str], first: int, last: int, names: Mapping[str, int]) -> str | None:
    """Return why a number or name of a part is not allowed or its range is empty; None if the part is valid."""
    words = [word for word in (found["low"], found["high"]) if word and word != "*"]
    numbers = []
    for word in words:
        number = _number(word, names)
        if number is None or not first <= number <= last:
            return f"{word} is not from {first} to {last}" if word.isdigit() else f"{word!r} is unknown"
        numbers.append(number)
    if len(numbers) == 2 and numbers[0] > numbers[1]:
        return f"the range {part!r} ends before it begins"
    return None


def _number(word: str, names: Mapping[str, int]) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 4 else names.get(word)


@accepts(choices=SPECIAL)
def known_special(value: str) -> str:
    """Check that cron knows the word. Raises `ValueError`."""
    if value not in SPECIAL:
        near = nearest(value if value.startswith("@") else f"@{value}", SPECIAL)
        raise ValueError(
            f"cron does not know {value!r}: "
            + (f"did you mean '{near}'?" if near else f"it knows {', '.join(SPECIAL)}")
        )
    return value


Minute = Annotated[str, BeforeValidator(parse_time), _within(0, 59)]
Hour = Annotated[str, BeforeValidator(parse_time), _within(0, 23)]
DayOfMonth = Annotated[str, BeforeValidator(parse_time), _within(1, 31)]
Month = Annotated[str, BeforeValidator(parse_time), _within(1, 12, MONTHS)]
DayOfWeek = Annotated[str, BeforeValidator(parse_time), _within(0, 7, DAYS)]
Special = Annotated[str, AfterValidator(known_special)]
