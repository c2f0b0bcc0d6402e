"""References between records. In the database a reference is the ID of its target."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticCustomError, core_schema

from holdfast.agent.northbound.errors import NorthboundError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, ValidationInfo

T = TypeVar("T", bound=BaseModel)
Notes = tuple[Any, ...]
"""Metadata of `Annotated`."""


class OnDelete(Enum):
    """What happens to a record when the target of its reference is deleted: `Annotated[Ref[Host], OnDelete.CASCADE]`.

    The default is `RESTRICT`.
    """

    RESTRICT = "restrict"
    """The target cannot be deleted."""
    CASCADE = "cascade"
    """The record is deleted as well, in the same transaction."""
    DANGLE = "dangle"
    """The reference stays and leads nowhere. Its target need not exist when it is written, either."""


class Source(Protocol):
    """The source of the targets of references: the API that the record came from."""

    def peek(self, ref: Ref[Any]) -> Any:
        """Return the target from the cache, or None."""

    async def resolve(self, ref: Ref[Any]) -> Any:
        """Return the target; raises `RefMissing`."""


class Ref(Generic[T]):
    """A reference to a record: made from an ID, another reference or a record.

    `Ref[Host]` or, for a class that is defined later, `Ref["Host"]`. `.id` and `.model` are always there; `peek` and
    `await` need a reference of a record that came from an `NbApi`.
    """

    __slots__ = ("_source", "id")
    model: ClassVar[type[BaseModel] | str] = ""
    """The class of the target, or its name."""

    id: str
    _source: Source | None

    def __init__(self, target: str | Ref[T] | T, source: Source | None = None) -> None:
        object.__setattr__(self, "id", _id(type(self), target))
        object.__setattr__(self, "_source", source)

    def __class_getitem__(cls, target: Any) -> Any:
        """Return the class of references to a model."""
        if isinstance(target, TypeVar):
            return super().__class_getitem__(target)  # type: ignore[misc]
        return _class_for(getattr(target, "__forward_arg__", target))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a reference does not change."""
        raise AttributeError(f"a reference cannot change: cannot set {name}")

    def __eq__(self, other: object) -> bool:
        """Return whether both lead to the same record."""
        return isinstance(other, Ref) and (target_name(type(self)), self.id) == (target_name(type(other)), other.id)

    def __hash__(self) -> int:
        """Return the hash of the target's name and ID."""
        return hash((target_name(type(self)), self.id))

    def __copy__(self) -> Self:
        """Return the reference itself, which cannot change."""
        return self

    def __deepcopy__(self, _: object) -> Self:
        """Return the reference itself, which cannot change."""
        return self

    def __repr__(self) -> str:
        """Return the reference as an expression."""
        return f"Ref[{target_name(type(self))}]({self.id!r})"

    def peek(self) -> T | None:
        """Return the target from the cache; None if the cache does not have it."""
        found: T | None = self._bound().peek(self)
        return found

    def __await__(self) -> Generator[Any, None, T]:
        """Return the target, from the cache or the database; raises `RefMissing`."""
        return self._bound().resolve(self).__await__()

    def bound(self, source: Source) -> Ref[T]:
        """Return the same reference, with targets from this source."""
        return self if self._source is source else type(self)(self.id, source)

    def _bound(self) -> Source:
        if self._source is None:
            raise NorthboundError(f"{self!r} belongs to no API: read the record first, or use `api.get(ref)`")
        return self._source

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, __: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Validate an ID, a reference or a record; write an ID."""

        def validate(value: Any, info: ValidationInfo) -> Ref[T]:
            try:
                return cls(value, _source(info.context, value))
            except TypeError as error:
                raise PydanticCustomError("reference", "{why}", {"why": str(error)}) from None

        return core_schema.with_info_plain_validator_function(
            validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda ref: ref.id, return_schema=core_schema.str_schema()
            ),
        )


@cache
def _class_for(target: type[BaseModel] | str) -> type[Ref[Any]]:
    name = target if isinstance(target, str) else target.__name__
    return type(f"Ref[{name}]", (Ref,), {"model": target, "__slots__": (), "__module__": __name__})


def _source(context: Any, value: object) -> Source | None:
    """Return the source for a reference that is made from a value: that of the context, or of another reference."""
    source: Source | None = context.source if context else None
    return value._source if source is None and isinstance(value, Ref) else source  # noqa: SLF001


def target_name(ref: type[Ref[Any]]) -> str:
    """Return the class name of the target of a class of references."""
    return ref.model if isinstance(ref.model, str) else ref.model.__name__


def _id(ref: type[Ref[Any]], target: object) -> str:
    """Return the ID of a target. Raises `TypeError` if it is another model's, or no ID at all."""
    wanted = target_name(ref)
    if isinstance(target, str):
        if not target:
            raise TypeError(f"an ID of {wanted} is a text of at least one character")
        return target
    found = target_name(type(target)) if isinstance(target, Ref) else type(target).__name__
    if found != wanted:
        raise TypeError(f"it refers to {wanted}, not to {found}")
    key = getattr(target, "id", None)
    if not isinstance(key, str) or not key:
        raise TypeError(f"this {wanted} has no ID")
    return key


def within(base: type, annotation: Any, path: str = "", notes: Notes = ()) -> Iterator[tuple[type[Any], str, Notes]]:
    """Yield the classes derived from `base` in a type.

    With each come `.*` for each dictionary that encloses it, and the metadata of `Annotated` around it, the nearest
    first.
    """
    origin = get_origin(annotation)
    if origin is None:
        if isinstance(annotation, type) and issubclass(annotation, base):
            yield annotation, path, notes
    elif origin is Annotated:
        inner, *said = get_args(annotation)
        yield from within(base, inner, path, (*said, *notes))
    else:
        step = ".*" if is_mapping(annotation) else ""
        for argument in get_args(annotation):
            yield from within(base, argument, path + step, notes)


def is_mapping(annotation: Any) -> bool:
    """Return whether values of this type are dictionaries."""
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, Mapping)
