"""`file.append`, `file.prepend`: lines that a file has to hold."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.context import Context, Watch
from holdfast.resources.fields import field, parse_list
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.edit import Edit, ended
from holdfast.resources.kinds.file.sources import Sourced

Lines = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(str(parse_contents(item)) for item in parse_list(value)))]


class Held(Sourced, Edit):
    """Texts that a file has to hold somewhere."""

    makedirs: bool = False
    """Make missing parent directories."""
    text: Lines = field(())
    """Text, or a list of texts; each may be several lines, which must follow each other."""
    ignore_whitespace: bool = True
    """Blanks in a line may be of any number."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if bool(self.text) == bool(self.all_sources()):
            raise ValueError("give either text or a source: the lines can come from one place only")
        return self

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """The texts."""
        return self.text or await self.fetch(ctx)

    def makes(self) -> bool:
        """It is made."""
        return True

    def makes_parents(self) -> bool:
        """As declared."""
        return self.makedirs

    def watch(self, ctx: Context) -> Watch:
        """Events of the file and of its sources on this host."""
        return ctx.watch_path(self.name, *self.source_paths(ctx))

    def holds(self, text: str, part: str) -> bool:
        """Whether the lines of `part` stand in `text`, one after the other."""
        return stands(text, part, tolerant=self.ignore_whitespace)


class Append(Held, kind="file.append"):
    """Lines that the file holds somewhere; those it does not are added at its end.

    /etc/profile:
      file.append:
        - text: umask 027
    """

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """The text with what is missing at its end."""
        for part in given:
            if not self.holds(text, part):
                text = ended(text) + finished(part, newline=True)
        return text


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
            return text if ended(text).startswith(head) else head + text
        return "".join(finished(part, newline=True) for part in given if not self.holds(text, part)) + text


def stands(text: str, part: str, *, tolerant: bool = False) -> bool:
    """Whether the lines of `part` stand in `text`, one after the other; blanks at their ends do not count.

    `tolerant`: nor do blanks before them, and any number of blanks between words is the same.
    """

    def parts(some: str) -> list[str]:
        return [" ".join(line.split()) if tolerant else line.rstrip() for line in some.split("\n")]

    wanted, lines = parts(part.rstrip("\n")), parts(text.removesuffix("\n")) if text else []  # no text: not even a blank line
    return any(lines[n : n + len(wanted)] == wanted for n in range(len(lines) - len(wanted) + 1))
