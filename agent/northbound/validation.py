"""Error texts for invalid records. They do not contain values, which may be secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from holdfast.agent.northbound.errors import Invalid


def unstorable(error: Exception) -> str:
    """Return why a record cannot be stored as JSON, without its values."""
    text = str(error)
    if isinstance(error, RecursionError) or "recursion" in text or "depth" in text:
        return "it is nested too deeply"
    if "number out of range" in text or "integer string conversion" in text:
        return "a number has too many digits"
    if "surrogates" in text:
        return "a text is not Unicode"
    return "a value has a type that JSON does not have"


@contextmanager
def raising_invalid(model: Any, values: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Raise `Invalid` in place of errors of pydantic."""
    try:
        yield
    except ValidationError as error:
        raise Invalid(f"cannot build {model.__name__}: {error_text(error)}{_unknown(model, values, error)}") from None
    except RecursionError:
        raise Invalid(f"cannot build {model.__name__}: it is nested too deeply") from None


def unknown_fields(model: type[BaseModel], names: Iterable[str]) -> str:
    """Return the error for fields that a model does not have, with the names of its fields."""
    return f"there is no field {', '.join(map(repr, names))}; the fields are {', '.join(model.model_fields)}"


def _unknown(model: Any, values: Mapping[str, Any], error: ValidationError) -> str:
    """Return the error for unknown names among the given fields, if the validation error does not have it."""
    names = [name for name in values if name not in model.model_fields]
    return f"; {unknown_fields(model, names)}" if names and "there is no field" not in str(error) else ""


def error_text(error: ValidationError) -> str:
    """Return all errors of a validation in one line, without the values, which may be secret."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the record'}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    )
