"""What is wrong with a record, in words that do not contain its values, which may be secret."""

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
def telling(model: Any, values: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Turn the errors of validation into `Invalid`."""
    try:
        yield
    except ValidationError as error:
        raise Invalid(f"cannot build {model.__name__}: {told(error)}{_strange(model, values, error)}") from None
    except RecursionError:
        raise Invalid(f"cannot build {model.__name__}: it is nested too deeply") from None


def unknown_fields(model: type[BaseModel], names: Iterable[str]) -> str:
    """Return that a model does not have these fields, and which it has."""
    return f"there is no field {', '.join(map(repr, names))}; the fields are {', '.join(model.model_fields)}"


def _strange(model: Any, values: Mapping[str, Any], error: ValidationError) -> str:
    """Return what is wrong with the names of the given fields, if the error does not say so itself."""
    names = [name for name in values if name not in model.model_fields]
    return f"; {unknown_fields(model, names)}" if names and "there is no field" not in str(error) else ""


def told(error: ValidationError) -> str:
    """Return all mistakes in one line, without the values, which may be secret."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'the record'}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    )
