"""Models: the classes of records. One class statement declares all properties of a table.

    class ResourceStatus(Versioned, Model, table="resources"):
        indexes = {"host": "host", "by_result": ("host", "result")}
        host: Annotated[Ref[Host], OnDelete.CASCADE]
        result: Result

A record never changes; methods that would change one return a copy. It may be built from any of its fields: `update`
takes those that are set. A model without a table can only be embedded in others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic._internal._model_construction import ModelMetaclass
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.frozen import CONTAINERS, freeze, same
from holdfast.agent.northbound.indexing import Index
from holdfast.agent.northbound.ref import OnDelete, Ref, Source, target_name, within
from holdfast.agent.northbound.registry import registry
from holdfast.agent.northbound.validation import error_text, raising_invalid, unknown_fields, unstorable
from holdfast.agent.northbound.values import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable

Unknown = Literal["keep", "drop", "reject"]
"""What happens to fields of a stored record that its model does not have; kept fields are written back unchanged."""

VERSION = "$v"
"""Key of the schema version in a stored record. No field can have this name."""
EVENTS = ("created", "updated", "deleted")
"""Events that every table may have."""


class Use(NamedTuple):
    """A reference in a model or in an embedded model."""

    path: str
    """Path of the field, as in an index."""
    ref: type[Ref[Any]]
    on_delete: OnDelete

    @property
    def target(self) -> str:
        """Class name of the target."""
        return target_name(self.ref)

    @property
    def index_name(self) -> str:
        """Name of the index of the IDs in these references."""
        return f"->{self.path}"


class Decoding(NamedTuple):
    """How to read a stored record."""

    source: Source | None
    unknown: Unknown


REBUILDING = Decoding(None, "keep")
"""For a record that is made from another one, whose unknown fields were accepted already."""
TABLE = re.compile(r"[a-z][a-z0-9_-]*")
"""Valid names of tables: they are parts of keys, paths and topics."""


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _Meta(ModelMetaclass):
    """Gives each field without a default the default `UNSET`, so that a record may be built from any of its fields."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _Meta:
        for field, annotation in namespace.get("__annotations__", {}).items():
            if field.startswith("_") or "ClassVar" in str(annotation):
                continue
            if any(hasattr(base, field) and field not in getattr(base, "model_fields", {}) for base in bases):
                raise Invalid(f"cannot define {name}: every model has {field!r} already, it cannot be a field")
            given = namespace.setdefault(field, Field(default=UNSET))
            if isinstance(given, FieldInfo) and given.is_required():
                raise Invalid(f"cannot define {name}: write `{field}: Annotated[..., Field(...)]`, not `= Field(...)`")
        return super().__new__(mcs, name, bases, namespace, **options)  # type: ignore[return-value]

    def __call__(cls, *arguments: Any, **values: Any) -> Any:
        """Build a record from the given fields, without those that are UNSET.

        Raises `Invalid`, which names each wrong field.
        """
        with raising_invalid(cls, values):
            return super().__call__(*arguments, **{name: value for name, value in values.items() if value is not UNSET})


class Struct(BaseModel, metaclass=_Meta):
    """Fields without an ID, to be embedded in records. The object and all that it contains are frozen."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        protected_namespaces=(),
        allow_inf_nan=False,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    def __init_subclass__(cls, **_: Any) -> None:
        """Accept the options of the class statement, which `__pydantic_init_subclass__` uses."""

    @classmethod
    def __pydantic_init_subclass__(cls) -> None:  # type: ignore[override] # it takes fewer options
        """Accept no options; those of `Model` are for records."""

    def given(self) -> frozenset[str]:
        """Return the names of the fields that were set."""
        return frozenset(self.model_fields_set)

    def replace(self, **values: Any) -> Self:
        """Return a copy with other values, validated as a whole; UNSET takes a value away. Raises `Invalid`."""
        model = type(self)
        if strange := values.keys() - model.model_fields.keys():
            raise Invalid(f"cannot build {model.__name__}: {unknown_fields(model, sorted(strange))}")
        with raising_invalid(model):
            given = {name: value for name, value in (self._set_fields() | values).items() if value is not UNSET}
            return model.model_validate(given, context=REBUILDING)

    def merged(self, change: Self) -> Self:
        """Return a copy with the fields that are set in `change`, validated as a whole. Raises `Invalid`."""
        with raising_invalid(type(self)):
            return self.model_validate(self._set_fields() | change._set_fields(), context=REBUILDING)

    def demand_whole(self) -> None:
        """Raise `Invalid` if a required field of the record or of an embedded one is not set."""
        if missing := list(_missing(self, "")):
            raise Invalid(f"{type(self).__name__} lacks {', '.join(missing)}")

    def _set_fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @model_validator(mode="after")
    def _settle(self, info: ValidationInfo) -> Self:
        """Freeze the content of the record, and handle fields that the model does not have."""
        extra = self.__pydantic_extra__
        if extra:
            policy = info.context.unknown if info.context else "reject"
            if policy == "reject":
                raise ValueError(unknown_fields(type(self), extra))
            if policy == "drop":
                extra.clear()
        values = self.__dict__
        for name, value in values.items():
            if isinstance(value, (*CONTAINERS, float, BaseModel)):
                values[name] = freeze(value)
        return self


class Model(Struct):
    """Base of all records."""

    table: ClassVar[str] = ""
    """Name of the table; empty: the model is only embedded."""
    internal: ClassVar[bool] = False
    """Whether the table is internal: it is not shown to users."""
    schema_version: ClassVar[int] = 1
    unknown: ClassVar[Unknown] = "keep"
    upgrades: ClassVar[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
    """Schema version -> function that turns a stored record of that version into one of the next version."""
    indexes: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}
    """Name -> path, or paths, of an index. Those of parents and mixins are inherited; the nearest class wins."""
    events: ClassVar[Sequence[str]] = EVENTS
    """Events that `watch` delivers. Those of parents and mixins are inherited."""
    _declared: ClassVar[tuple[Mapping[str, str | tuple[str, ...]], Sequence[str]]] = ({}, EVENTS)
    """The class's own indexes and events, without those that it inherits."""
    _index_paths: ClassVar[dict[str, Index] | None] = None
    _uses: ClassVar[tuple[Use, ...] | None] = None

    id: str

    @classmethod
    def __pydantic_init_subclass__(  # type: ignore[override] # these options only
        cls, *, table: str = "", schema: int = 1, unknown: Unknown = "keep"
    ) -> None:
        """Register the model. Raises `Invalid` if a name is taken or an index has a wrong path."""
        if table and not TABLE.fullmatch(table):
            raise Invalid(f"cannot define {cls.__name__}: the name of a table is [a-z][a-z0-9_-]*, not {table!r}")
        cls.table, cls.schema_version, cls.unknown = table, schema, unknown
        cls._declared = (vars(cls).get("indexes", {}), vars(cls).get("events", ()))
        lineage = [_own(each) for each in reversed(cls.__mro__)]
        cls.indexes = {name: path for indexes, _ in lineage for name, path in indexes.items()}
        cls.events = tuple(dict.fromkeys(name for _, events in lineage for name in events))
        cls._uses = cls._index_paths = None
        if missing := [number for number in range(1, schema) if number not in cls.upgrades]:
            raise Invalid(f"cannot define {cls.__name__}: no upgrade from schema version {missing[0]}")
        if cls.__pydantic_complete__:
            cls.all_indexes()
        registry.add(cls)

    # -- what is in a record -----------------------------------------------------------------------------------

    @classmethod
    def references(cls) -> tuple[Use, ...]:
        """Return all references of the model and of the models that it embeds. Raises `Invalid`."""
        if cls._uses is None:
            cls._complete()
            cls._uses = tuple(_uses(cls, "", ()))
        return cls._uses

    @classmethod
    def reference_indexes(cls) -> Sequence[tuple[Use, Index]]:
        """Return for each reference the index of the IDs that it holds; `all_indexes` has these, too."""
        indexes = cls.all_indexes()
        return [(use, indexes[use.index_name]) for use in cls.references()]

    @classmethod
    def index(cls, name: str) -> Index:
        """Return an index by its name. Raises `Invalid`."""
        indexes = cls._index_paths or cls.all_indexes()
        try:
            return indexes[name]
        except KeyError:
            known = ", ".join(indexes) or "none"
            raise Invalid(f"{cls.__name__} has no index {name!r}; it has: {known}") from None

    @classmethod
    def all_indexes(cls) -> Mapping[str, Index]:
        """Return the indexes by name: the declared ones and one for each reference.

        Raises `Invalid` for a wrong path. Usually the class statement has raised it, but it cannot check a model that
        embeds one defined later.
        """
        if cls._index_paths is None:
            cls._complete()
            paths = dict(cls.indexes) | {use.index_name: use.path for use in cls.references()} if cls.table else {}
            cls._index_paths = {name: Index(cls, name, path) for name, path in paths.items()}
        return cls._index_paths

    @classmethod
    def _complete(cls) -> None:
        """Find the models that were defined after this one, which embeds them. Raises `Invalid`."""
        try:
            cls.model_rebuild()
        except PydanticUndefinedAnnotation as error:
            raise Invalid(f"{cls.__name__} embeds {error.name}, which is not defined") from None

    def changed_from(self, original: Model) -> frozenset[str]:
        """Return the names of the fields whose values differ."""
        fields = type(self).model_fields
        return frozenset(name for name in fields if not same(getattr(self, name), getattr(original, name)))

    # -- hooks -------------------------------------------------------------------------------------------------

    def on_create_pre(self) -> Self:
        """Return the record that is to be created. Hooks call `super()`; one that raises prevents the write."""
        return self

    def on_update_pre(self, original: Self) -> Self:  # noqa: ARG002 - for hooks
        """Return the record that is to replace `original`."""
        return self

    def on_delete_pre(self) -> None:
        """Do nothing; a hook may raise to prevent that the record is deleted."""

    @classmethod
    def on_get_all_post(cls, found: Sequence[Self]) -> Sequence[Self]:
        """Return the records that `get_all` returns, given those that it found."""
        return found

    # -- how it is stored --------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the stored form: JSON that `decode` can read.

        Raises `Invalid` if a required field is not set, or if a value is nested too deeply or has no form in JSON.
        """
        self.demand_whole()
        try:
            body = self.model_dump_json(exclude={VERSION})
            from_json(body)
        except (ValueError, RecursionError) as error:  # a part of its text may be a secret value
            raise Invalid(f"cannot store {self.table} {self.id!r:.60}: {unstorable(error)}") from None
        return f'{{"{VERSION}":{self.newer or self.schema_version},{body[1:]}'.encode()

    @classmethod
    def decode(cls, data: bytes, source: Source | None = None) -> Self:
        """Return the record of a stored form of this, an older or a newer schema version.

        Fields that a newer version has added are kept. Raises `Invalid`.
        """
        head = f'{{"{VERSION}":{cls.schema_version},'.encode()
        context = Decoding(source, cls.unknown)
        if not isinstance(data, bytes):
            raise Invalid(f"cannot read a record of {cls.table}: it is stored as {type(data).__name__}, not as bytes")
        try:
            if data.startswith(head):
                return cls.model_validate_json(b"{" + data[len(head) :], context=context)
            return cls._decode_other(json.loads(data), context)
        except ValidationError as error:
            raise Invalid(f"cannot read a record of {cls.table}: {error_text(error)}") from None
        except RecursionError:
            raise Invalid(f"cannot read a record of {cls.table}: it is nested too deeply") from None
        except ValueError as error:
            raise Invalid(f"cannot read a record of {cls.table}: {error}") from None

    @property
    def newer(self) -> int:
        """The schema version of the stored record if it is newer than the model's, else 0."""
        version = (self.__pydantic_extra__ or {}).get(VERSION)
        return version if type(version) is int and version > self.schema_version else 0

    @classmethod
    def _decode_other(cls, values: Any, context: Decoding) -> Self:
        """Return the record of a form with another schema version, or with keys in another order."""
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")  # noqa: TRY004 - of a stored form, not of an argument
        version = values.pop(VERSION, 1)
        if type(version) is not int or version < 1:
            raise ValueError(f"its schema version is {version!r:.60}")
        if version > cls.schema_version:
            values[VERSION], context = version, context._replace(unknown="keep")
        for number in range(version, cls.schema_version):  # there is none if the record is newer
            try:
                values = cls.upgrades[number](values)
            except Exception as error:
                why = type(error).__name__  # its text may contain a value, which may be secret
                raise ValueError(f"the upgrade from schema version {number} fails: {why}") from error
        return cls.model_validate_json(json.dumps(values), context=context)


def _own(cls: type) -> tuple[Mapping[str, str | tuple[str, ...]], Sequence[str]]:
    """Return the indexes and events that a class declares itself."""
    declared = vars(cls).get("_declared")
    return declared or (vars(cls).get("indexes", {}), vars(cls).get("events", ()))


def _missing(value: Any, path: str) -> Iterable[str]:
    """Yield the paths of required fields that are not set, in a record and in embedded ones."""
    if isinstance(value, Struct):
        for name in type(value).model_fields:
            here = f"{path}.{name}" if path else name
            inner = getattr(value, name)
            if inner is UNSET:
                yield here
            elif isinstance(inner, (Struct, list, dict, tuple, set)):
                yield from _missing(inner, here)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _missing(each, f"{path}.{key}")
    elif isinstance(value, (list, tuple, set)):
        for number, each in enumerate(value):
            yield from _missing(each, f"{path}.{number}")


def _uses(model: type[Model], path: str, above: tuple[type[Model], ...]) -> Iterable[Use]:
    """Yield the references of a model and of the models that it embeds."""
    if model in above:
        return
    for name, field in model.model_fields.items():
        here = f"{path}.{name}" if path else name
        for ref, depth, notes in within(Ref, field.annotation, notes=tuple(field.metadata)):
            policy = next((each for each in notes if isinstance(each, OnDelete)), OnDelete.RESTRICT)
            yield Use(here + depth, ref, policy)
        for inner, depth, _ in within(Struct, field.annotation):
            yield from _uses(inner, here + depth, (*above, model))
