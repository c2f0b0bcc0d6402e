"""debconf's database, and the input lines of debconf-set-selections. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

TYPES = ("select", "boolean", "string", "multiselect", "note", "password", "text", "title")
"""Types of questions that debconf-set-selections accepts."""
PASSWORD = "password"  # noqa: S105 - a type of question
LINE = re.compile(r"[ \t]*([!-~]+)[ \t]+([!-~]+)[ \t]+([!-~]+)(?:[ \t](.*))?", re.DOTALL)
FIELD = re.compile(r"(Name|Value|Owners):[ \t]*(.*)")


class Answer(NamedTuple):
    """One answer for debconf-set-selections."""

    owner: str
    """The package that asks."""
    question: str
    type: str
    value: str

    @property
    def line(self) -> str:
        """The line with the answer."""
        return f"{self.owner} {self.question} {self.type} {self.value}\n"


class Question(NamedTuple):
    """One question of the database."""

    value: str | None
    """The answer; None if there is none."""
    owners: frozenset[str]


def demand_answer(answer: Answer) -> Answer:
    """Check an answer. Raises `ValueError` if one line cannot express it exactly."""
    for what, word in (("the owner", answer.owner), ("the question", answer.question)):
        if not re.fullmatch(r"(?!#)[!-~]+", word):
            raise ValueError(f"{what} {word!r} is not one word")
    if answer.type not in TYPES:
        raise ValueError(f"{answer.question}: {answer.type!r} is not a type; available: {', '.join(TYPES)}")
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", answer.value) or answer.value.endswith("\\"):
        raise ValueError(f"{answer.question}: the answer must be one line that does not end in a backslash")
    if answer.value != answer.value.strip():
        raise ValueError(f"{answer.question}: debconf does not keep blanks around an answer")
    if answer.type == "boolean" and answer.value not in ("true", "false"):
        raise ValueError(f"{answer.question}: the answer to a boolean is true or false")
    return answer


def selections(text: str) -> Iterator[Answer]:
    """Yield the answers in a file for debconf-set-selections. Raises `ValueError` with the number of the line."""
    lines = text.replace("\r\n", "\n").replace("\\\n", "").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"line {number}: an answer is: package question type value")
        owner, question, type_, value = found.groups()
        if type_ == "seen":
            continue
        try:
            yield demand_answer(Answer(owner, question, type_, (value or "").strip()))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def known(texts: Iterable[str]) -> Mapping[str, Question]:
    """Return the questions of the files of the database by name; a later file takes precedence."""
    found: dict[str, Question] = {}
    for text in texts:
        for paragraph in text.split("\n\n"):
            fields = {match[1]: match[2] for match in map(FIELD.fullmatch, paragraph.split("\n")) if match}
            if name := fields.get("Name"):
                owners = frozenset(fields.get("Owners", "").replace(",", " ").split())
                value = fields.get("Value")
                found[name] = Question(None if value is None else value.strip(), owners)
    return found
