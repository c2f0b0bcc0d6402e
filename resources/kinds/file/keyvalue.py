"""`file.keyvalue`: settings of the form `key=value`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, field_validator, model_validator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.fields import field, parse_text
from holdfast.resources.kinds._lines import bare, end_of, ended, split
from holdfast.resources.kinds.file.edit import Edit


@accepts(VALUE, bool, numbers=True)
def parse_value(value: object) -> object:
    """Return a value as text; write booleans as Python does."""
    return str(value) if isinstance(value, bool) else parse_text(value)


Value = Annotated[str, BeforeValidator(parse_value)]


class KeyValue(Edit, kind="file.keyvalue"):
    """A file has settings of the form `key=value`, one on each line.

    /etc/ssh/sshd_config:
      file.keyvalue:
        - key_values:
            PermitRootLogin: 'no'
            X11Forwarding: 'no'
        - separator: ' '
        - uncomment: '#'
        - append_if_not_found: true
    """

    key: str | None = None
    """A key; requires `value`."""
    value: Value | None = None
    """Value of the key."""
    key_values: dict[str, Value] = field(default_factory=dict)
    """Several keys and their values, instead of `key` and `value`."""
    separator: str = field("=", min_length=1)
    """Separator of key and value, blanks included."""
    append_if_not_found: bool = False
    """Add missing keys at the end. Default: missing keys are not added."""
    prepend_if_not_found: bool = False
    """Add missing keys at the beginning."""
    search_only: bool = False
    """Change existing keys but add none."""
    ignore_if_missing: bool = False
    """Accept a missing file."""
    create_if_missing: bool = False
    """Create a missing file, with all keys."""
    count: int = field(1, ge=-1)
    """Maximum number of lines for one key; further lines are removed. -1: any number."""
    uncomment: str | None = field(None, min_length=1)
    """A comment sign to remove before a key."""
    key_ignore_case: bool = False
    """Ignore the case of keys; the file keeps its spelling."""
    value_ignore_case: bool = False
    """Ignore the case of values."""
    prune: bool = False
    """Remove all lines that set none of the keys, including comments and blank lines."""

    @field_validator("count")
    @classmethod
    def _not_none(cls, count: int) -> int:
        if count == 0:
            raise ValueError("count 0 would remove the key: use file.line with mode: delete for that")
        return count

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.key is None) != (self.value is None):
            raise ValueError("key needs value, and value needs key")
        if (self.key is None) == (not self.key_values):
            raise ValueError("set either key and value, or key_values")
        for key, value in self._pairs():
            self._demand_fits(key, value)
        self._demand_distinct()
        return self

    def _demand_fits(self, key: str, value: str) -> None:
        """Raise `ValueError` for a key or value that a line cannot contain."""
        texts = (key, value, self.separator)
        if not key or key != key.strip() or any(end in text for end in "\r\n" for text in texts):
            raise ValueError(
                f"{key!r} cannot be a key here: keys must not begin or end with a blank, and keys and values "
                "must not have a line break"
            )

    def _demand_distinct(self) -> None:
        """Raise `ValueError` if a line for one key could also be a line for another key."""
        keys = sorted(f"{self._folded(key)}{self.separator}" for key, _ in self._pairs())
        for one, other in itertools.pairwise(keys):
            if other.startswith(one):
                raise ValueError(
                    f"a line for {other.removesuffix(self.separator)!r} could also be a line for "
                    f"{one.removesuffix(self.separator)!r}"
                )

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self.key is not None and self.value is not None:
            yield self.key, self.value
        yield from self.key_values.items()

    def _folded(self, text: str) -> str:
        return text.lower() if self.key_ignore_case else text

    def makes(self) -> bool:
        """Return whether `create_if_missing` is set."""
        return self.create_if_missing

    def tolerates(self) -> bool:
        """Return whether `ignore_if_missing` is set and `create_if_missing` is not."""
        return self.ignore_if_missing and not self.create_if_missing

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the text with the values set."""
        wanted, seen = dict(self._pairs()), dict.fromkeys((key for key, _ in self._pairs()), 0)
        kept: list[str] = []
        for line in split(text):
            found = self._find(line, wanted)
            if found is None:
                kept += [] if self.prune else [line]
                continue
            key, written, value = found
            seen[key] += 1
            if self.count == -1 or seen[key] <= self.count:
                kept.append(
                    line
                    if value is not None and self._equal(value, wanted[key])
                    else self._line(written, wanted[key], line)
                )
        added = [key for key, times in seen.items() if not times]
        return self._with(added, wanted, "".join(kept)) if added and self._adds(text) else "".join(kept)

    def _adds(self, text: str) -> bool:
        return (
            self.append_if_not_found or self.prepend_if_not_found or (self.create_if_missing and not text)
        ) and not self.search_only

    def _with(self, keys: list[str], wanted: Mapping[str, str], text: str) -> str:
        like = text[: text.find("\n") + 1]
        lines = "".join(self._line(key, wanted[key], like) for key in keys)
        return lines + text if self.prepend_if_not_found and not self.append_if_not_found else ended(text) + lines

    def _line(self, key: str, value: str, like: str) -> str:
        return f"{key}{self.separator}{value}{end_of(like)}"

    def _equal(self, one: str, other: str) -> bool:
        one, other = one.strip(), other.strip()
        return one.lower() == other.lower() if self.value_ignore_case else one == other

    def _find(self, line: str, keys: Mapping[str, Any]) -> tuple[str, str, str | None] | None:
        """Return the key that a line sets, as declared and as written, and its value.

        The value of a comment is None, so that it always differs.
        """
        flags = re.IGNORECASE if self.key_ignore_case else re.RegexFlag(0)
        signs = [r"[ \t]*"] if self.uncomment is None else [r"[ \t]*", re.escape(self.uncomment)]
        for comment, sign in enumerate(signs):
            for key in keys:
                found = re.match(f"{sign}({re.escape(key)}){re.escape(self.separator)}", bare(line), flags)
                if found:
                    return key, found[1], None if comment else bare(line)[found.end() :]
        return None
