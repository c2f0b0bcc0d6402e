"""`file.blockreplace`: the block between two marked lines of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.accumulators import Collecting
from holdfast.resources.context import Context, Watch
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import field
from holdfast.resources.kinds._lines import bare, end_of, ended, split
from holdfast.resources.kinds.file.content import finished, parse_contents
from holdfast.resources.kinds.file.edit import Edit, Regex, one_line
from holdfast.resources.kinds.file.sources import Sourced

Marker = Annotated[str, AfterValidator(one_line)]


@accepts(str, list[str | list[str]], None, numbers=True)
def parse_block(value: object) -> object:
    """Return the content as text, from text, a number, a list of lines, or None for empty text."""
    return parse_contents(value) or ""


PLACES = ("append_if_not_found", "prepend_if_not_found", "insert_before_match", "insert_after_match")


class BlockReplace(Collecting, Sourced, Edit, kind="file.blockreplace"):
    """A file has a block of text between two marker lines; the rest of the file is not changed.

    /etc/hosts:
      file.blockreplace:
        - marker_start: '# begin of our hosts'
        - marker_end: '# end of our hosts'
        - content: 10.0.0.1 db
        - append_if_not_found: true
    """

    ignored: ClassVar[Mapping[str, str]] = Edit.ignored
    of_required: ClassVar[bool] = True

    marker_start: Marker = field("#-- start managed zone --", min_length=1)
    """Text in the line before the block."""
    marker_end: Marker = field("#-- end managed zone --", min_length=1)
    """Text in the line after the block."""
    content: Annotated[str, BeforeValidator(parse_block)] = ""
    """Text of the block; text from sources follows it."""
    append_if_not_found: bool = False
    """Add a missing block at the end of the file."""
    prepend_if_not_found: bool = False
    """Add a missing block at the beginning of the file."""
    insert_before_match: Regex | None = None
    """Add a missing block before the first line that matches this regular expression."""
    insert_after_match: Regex | None = None
    """Add a missing block after the first line that matches."""
    append_newline: bool | None = None
    """Add a line break at the end of the content: null if it has none, true always, false never."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if sum(bool(getattr(self, word)) for word in PLACES) > 1:
            raise ValueError(f"set only one of {', '.join(PLACES)}: a missing block is added at one place")
        if self._ends_early(self._finished(self.content)):
            raise ValueError("content contains marker_end: the block would end there")
        return self

    def with_texts(self, texts: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        """Return a copy with the texts as further lines of the content."""
        lines = [str(text) for given in texts.values() for text in given]
        return {"content": "\n".join([*filter(None, [self.content]), *lines])}

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and its sources on this host."""
        return ctx.watch_path(self.name, *self.outside_paths(ctx))

    async def given(self, ctx: Context) -> tuple[str, ...]:
        """Return all parts of the content."""
        return (self.content, *await self.fetch(ctx))

    def stated(self) -> tuple[str, ...] | None:
        """Return the content unless a part of it comes from sources."""
        return None if self.all_sources() else (self.content,)

    def patterns(self) -> tuple[str, ...]:
        """Return the declared regular expressions."""
        return tuple(filter(None, (self.insert_before_match, self.insert_after_match)))

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with each occurrence of the block replaced.

        Raises `Permanent` if a block has no end, or if there is no place for a new block.
        """
        content = self._finished("".join([*(finished(part, newline=True) for part in given[:-1]), *given[-1:]]))
        if self._ends_early(content):
            raise Permanent(
                f"cannot edit {self.name}: the content contains marker_end {self.marker_end!r}: "
                "the block would end there"
            )
        lines, new, found = split(text), [], False
        rest = iter(enumerate(lines))
        for _, line in rest:
            new.append(line)
            if self.marker_start in line:
                end = next((n for n, other in rest if self.marker_end in other), None)
                if end is None:
                    raise Permanent(
                        f"cannot edit {self.name}: marker_start is not followed by a line with marker_end "
                        f"{self.marker_end!r}"
                    )
                new += [adapted(content, line), self._end(lines[end])]
                found = True
        return "".join(new) if found else self._with_block(lines, content)

    def _finished(self, content: str) -> str:
        """Return the content with the right line break at its end."""
        if self.append_newline is None:
            return content if content.endswith("\n") else content + "\n"
        return content + "\n" if self.append_newline else content

    def _ends_early(self, content: str) -> bool:
        return (content + self.marker_end).find(self.marker_end) != len(content)

    def _end(self, line: str) -> str:
        """Return the line with marker_end without preceding text, which belongs to the block unless it is blank."""
        before, marker, after = line.partition(self.marker_end)
        return (before if self.append_newline is not False and not before.strip() else "") + marker + after

    def _with_block(self, lines: list[str], content: str) -> str:
        """Return the text with a new block."""
        like = lines[0] if lines else ""
        block = [self.marker_start + end_of(like), adapted(content, like), self.marker_end + end_of(like)]
        if self.append_if_not_found:
            return "".join([ended("".join(lines)), *block])
        if self.prepend_if_not_found:
            return "".join([*block, *lines])
        pattern = self.insert_before_match or self.insert_after_match
        if pattern is None:
            raise Permanent(
                f"cannot edit {self.name}: no line has {self.marker_start!r}; add the markers, "
                "or set append_if_not_found: true"
            )
        place = next((n for n, line in enumerate(lines) if re.search(pattern, bare(line))), None)
        if place is None:
            raise Permanent(f"cannot edit {self.name}: no line has {self.marker_start!r}, and none matches {pattern!r}")
        if self.insert_after_match:
            lines[place] = ended(lines[place])
            place += 1
        return "".join([*lines[:place], *block, *lines[place:]])


def adapted(content: str, like: str) -> str:
    """Return the content with the line ends of a line of the file."""
    return re.sub(r"\r?\n", "\r\n", content) if end_of(like) == "\r\n" else content
