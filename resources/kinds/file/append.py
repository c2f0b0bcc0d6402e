"""`file.append`, `file.prepend`: lines that a file must contain."""

from __future__ import annotations

import re
from typing import Annotated, Self, cast

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.fields import field, parse_list
from holdfast.resources.kinds._lines import ended
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.edit import Edit
from holdfast.resources.kinds.file.sources import Sourced


@accepts(str, list[str | list[str]], None, numbers=True)
def parse_lines(value: object) -> object:
    """Return texts as a tuple, from one text or a list; each text may be a list of lines. Raises `ValueError`."""
    return tuple(str(parse_contents(item)) for item in cast("list[object]", parse_list(value)))


Lines = Annotated[tuple[str, ...], BeforeValidator(parse_lines)]


class KeptLines(Sourced, Edit):
    """Base of the kinds that keep lines in a file."""

    makedirs: bool = False
    """Create missing parent directories."""
    text: Lines = field(())
    """Text, or a list of texts; the lines of one text must be consecutive in the file."""
    ignore_whitespace: bool = True
    """Treat blanks in a line as equal to any number of blanks, including none."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if bool(self.text) == bool(self.all_sources()):
            raise ValueError("set either text or a source: the lines can come from one place only")
        return self

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """Return the texts."""
        return self.text or await self.fetch(ctx)

    def stated(self) -> tuple[str, ...] | None:
        """Return the texts, unless they come from sources."""
        return self.text or None

    def makes(self) -> bool:
        """Return True: a missing file is created."""
        return True

    def makes_parents(self) -> bool:
        """Return whether `makedirs` is set."""
        return self.makedirs

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and its sources on this host."""
        return ctx.watch_path(self.name, *self.outside_paths(ctx))

    def missing(self, text: str, given: tuple[str, ...]) -> str:
        """Return the lines that `text` lacks.

        A line that is given twice must be there twice: the `}` of one block does not end another block.
        """
        return "".join(
            finished(part, newline=True) for part in given if not has_lines(text, part, tolerant=self.ignore_whitespace)
        )


class Append(KeptLines, kind="file.append"):
    """A file contains lines, anywhere; missing lines are added at its end.

    /etc/profile:
      file.append:
        - text: umask 027
    """

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the missing lines at its end."""
        missing = self.missing(text, given)
        return ended(text) + missing if missing else text


class Prepend(KeptLines, kind="file.prepend"):
    """A file contains lines, anywhere; missing lines are added at its beginning, in the given order.

    /etc/hosts.allow:
      file.prepend:
        - text: 'sshd: LOCAL'
    """

    header: bool = False
    """Require that the file begins with these lines."""

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the missing lines before it."""
        if self.header:
            head = "".join(finished(part, newline=True) for part in given)
            return text if plain(ended(text)).startswith(plain(head)) else head + text
        return self.missing(text, given) + text


def has_lines(text: str, part: str, *, tolerant: bool = False) -> bool:
    """Return whether `text` has the lines of `part` consecutively; blanks at line ends do not count.

    `tolerant`: blanks before a line do not count, either, and any number of blanks between words is equal, even none.
    """
    wanted = [_line(line.rstrip(), tolerant=tolerant) for line in part.rstrip("\n").split("\n")]
    lines = (
        [line.rstrip() for line in text.removesuffix("\n").split("\n")] if text else []
    )  # an empty text has no line, not even a blank one
    starts = range(len(lines) - len(wanted) + 1)
    return any(all(line.fullmatch(lines[start + n]) for n, line in enumerate(wanted)) for start in starts)


def _line(line: str, *, tolerant: bool) -> re.Pattern[str]:
    return re.compile(r"\s*" + r"\s*".join(map(re.escape, line.split())) if tolerant else re.escape(line))


def plain(text: str) -> str:
    """Return the text with line feeds as line ends."""
    return text.replace("\r\n", "\n")
