"""The spelling of the model's types in the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.agent.model.types import Type, TypeWord

PLAIN: Final[Mapping[str, TypeWord]] = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "text",
    "bytes": "bytes",
}
"""Name of Python -> word of the model."""
OF_IDL: Final[Mapping[str, TypeWord]] = {
    "DateTime": "moment",
    "Duration": "duration",
    "Path": "path",
    "Ip": "address",
    "Json": "any",
}
"""Name after `idl.` -> word of the model."""
COMPOSED: Final[Mapping[str, TypeWord]] = {
    "list[T]": "list",
    "set[T]": "set",
    "dict[str, T]": "mapping",
    "T | None": "union",
    "idl.Ref[Resource]": "reference",
}
DECLARED: Final[Mapping[str, TypeWord]] = {"structs": "record", "enumerations": "choice", "unions": "tagged"}
SPELLED: Final[Mapping[TypeWord, str]] = {
    **{word: spelling for table in (PLAIN, COMPOSED, DECLARED) for spelling, word in table.items()},
    **{word: f"idl.{spelling}" for spelling, word in OF_IDL.items()},
    "none": "None",
}
"""Word of the model -> its spelling in sources."""
LEGAL: Final = (
    f"allowed: {', '.join((*PLAIN, *(f'idl.{each}' for each in OF_IDL), *COMPOSED))}, "
    "Annotated[T, idl.limits(...)], structs, enumerations and aliases"
)


def spelled(words: Iterable[TypeWord]) -> str:
    """Return some words of the model as sources spell them: `int, float`."""
    return ", ".join(SPELLED[word] for word in words)


def types_of(table: Mapping[str, TypeWord]) -> dict[str, Type]:
    """Return spelling -> type without restrictions."""
    return {spelling: Type(word) for spelling, word in table.items()}
