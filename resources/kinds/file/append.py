"""`file.append`, `file.prepend`: lines that a file has to hold."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.context import Context, Watch
from holdfast.resources.fields import field, parse_list
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.edit import Edit, ended
from holdfast.resources.kinds.file.sources import Sourced

Lines = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: tuple(str(parse_contents(item)) for item in parse_list(value)))
]


class Held(Sourced, Edit):
    """Texts that a file has to hold somewhere."""

    makedirs: bool = False
    """Make missing parent directories."""
    text: Lines = field(())
    """Text, or a list of texts; each may be several lines, which must follow each other."""
    ignore_whitespace: bool = True
    """Where there are blanks in a line there may be any number of them, or none."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if bool(self.text) == bool(self.all_sources()):
            raise ValueError("give either text or a source: the lines can come from one place only")
        return self

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """The texts."""
        return self.text or await self.fetch(ctx)

    def stated(self) -> tuple[str, ...] | None:
        """The texts, where they do not come from sources."""
        return self.text or None

    def makes(self) -> bool:
        """It is made."""
        return True

    def makes_parents(self) -> bool:
        """As declared."""
        return self.makedirs

    def watch(self, ctx: Context) -> Watch:
        """Events of the file and of its sources on this host."""
        return ctx.watch_path(self.name, *self.outside_paths(ctx))

    def missing(self, text: str, given: tuple[str, ...]) -> str:
        """The lines that `text` does not hold. What is given twice is missing twice: the `}` of one block is not that of another."""
        return "".join(
            finished(part, newline=True) for part in given if not stands(text, part, tolerant=self.ignore_whitespace)
        )


class Append(Held, kind="file.append"):
    """Lines that the file holds somewhere; those it does not are added at its end.

    /etc/profile:
      file.append:
        - text: umask 027
    """

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """The text with what is missing at its end."""
        missing = self.missing(text, given)
        return ended(text) + missing if missing else text


class Prepend(Held, kind="file.prepend"):
    """Lines that the file holds somewhere; those it does not are added at its beginning, in the order given.

    /etc/hosts.allow:
      file.prepend:
        - text: 'sshd: LOCAL'
    """

    header: bool = False
    """The file must begin with these lines; elsewhere they do not count."""

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """The text with what is missing before it."""
        if self.header:
            head = "".join(finished(part, newline=True) for part in given)
            return text if plain(ended(text)).startswith(plain(head)) else head + text
        return self.missing(text, given) + text


def stands(text: str, part: str, *, tolerant: bool = False) -> bool:
    """Whether the lines of `part` stand in `text`, one after the other; blanks at their ends do not count.

    `tolerant`: nor do blanks before them, and where there are blanks between words any number will do, none included.
    """
    wanted = [_line(line.rstrip(), tolerant=tolerant) for line in part.rstrip("\n").split("\n")]
    lines = (
        [line.rstrip() for line in text.removesuffix("\n").split("\n")] if text else []
    )  # no text: not even a blank line
    starts = range(len(lines) - len(wanted) + 1)
    return any(all(line.fullmatch(lines[start + n]) for n, line in enumerate(wanted)) for start in starts)


def _line(line: str, *, tolerant: bool) -> re.Pattern[str]:
    return re.compile(r"\s*" + r"\s*".join(map(re.escape, line.split())) if tolerant else re.escape(line))


def plain(text: str) -> str:
    """A text whose lines end with line feeds alone."""
    return text.replace("\r\n", "\n")
