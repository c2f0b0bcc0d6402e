"""Secrets: how they are called, and a cover for them wherever they turn up in what is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.resources.fields import MASK

NAME = re.compile(
    r"(^|[_.-])(password|passwd|passphrase|secret|token|credentials?|(api|private|secret|access|auth|encryption)[_-]?key)$", re.IGNORECASE
)
"""Names of what is secret."""
SHORTEST = 6
"""Characters of a secret that is covered in texts: shorter ones are parts of too many words."""


class Cover:
    """Covers what mappings, the pillar above all, say of secrets: the texts of keys with such a name, line by line, wherever they stand."""

    def __init__(self, data: Any = None) -> None:
        found = sorted({line for text in _secrets(data) for line in text.splitlines() if len(line) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def __call__(self, value: Any) -> Any:
        """The same text, or mapping, list or tuple of texts, covered."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(MASK, value)
        if isinstance(value, Mapping):
            return {self(key): self(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self(each) for each in value])
        return value


def _secrets(data: Any, *, named: bool = False) -> Iterator[str]:
    """Texts below keys whose names say so; of a mapping below such a key only what is named so itself."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _secrets(value, named=bool(NAME.search(str(key))))
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _secrets(value, named=named)
    elif named and isinstance(data, (str, int)) and not isinstance(data, bool):
        yield str(data).strip()
