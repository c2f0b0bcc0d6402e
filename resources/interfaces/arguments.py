"""Arguments of calls by people and programs: words of a command line, or JSON; the declaration gives their types.

`nginx` is the next positional argument, `refresh=true` a named one. A parameter that takes several values takes all
further positional words; by name, its values are separated by commas. A word that begins with `[` or `{` is JSON unless
the parameter is text. A name alone stands for a record with this name (`PkgSpec`).
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.errors import ArgumentError
from holdfast.resources.interfaces.results import SECRET, Result
from holdfast.resources.interfaces.signatures import POSITIONAL, parameters
from holdfast.resources.secrets import MASK
from holdfast.resources.spelling import nearest

MANY = (collections.abc.Sequence, collections.abc.Set, list, tuple, set, frozenset)
"""Types of parameters that take several values."""
ABSENT = ("null", "none")
"""Words that mean null, for parameters that accept null but not text."""
NAMING = ("name", "names", "new_name", "pkgs")
"""Parameters that name what a function changes."""
ANY = "*"
"""Name of all things of a kind, as in `engine/schedule/reservations.py`."""


class Signature:
    """The parameters of one function, for calls by words."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        """The function as the caller writes it."""
        self._parameters = parameters(function)
        self._hints = get_type_hints(function)
        extras = get_type_hints(function, include_extras=True)
        self.secret = frozenset(name for name, hint in extras.items() if is_secret(hint))
        """Names of the parameters whose values are secret."""
        self._open = any(each.kind is Parameter.VAR_KEYWORD for each in self._parameters.values())
        """Whether the function takes any name, as `user.add` takes the fields of an account."""

    def bind(self, words: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. `given` are values from JSON.

        Raises `ArgumentError` for an unknown, superfluous, missing or wrong argument.
        """
        named, positional = self._split(words)
        if twice := sorted(named.keys() & given.keys()):
            raise self._wrong(f"{twice[0]!r} is given twice")
        for name in (*named, *given):
            self._demand(name)
        found = {name: self._typed(name, value) for name, value in given.items()}
        found |= {name: self._typed(name, self._read(name, text)) for name, text in named.items()}
        found |= self._placed(positional, found)
        for name, parameter in self._parameters.items():
            if name not in found and parameter.default is Parameter.empty and not _collects(parameter):
                raise self._wrong(f"it needs {name!r}")
        return found

    def _split(self, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Return the named and the positional words."""
        named: dict[str, str] = {}
        positional = []
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or not name.isidentifier():
                positional.append(word)
            elif name in named:
                raise self._wrong(f"{name!r} is given twice")
            else:
                named[name] = text
        return named, positional

    def _demand(self, name: str) -> None:
        parameter = self._parameters.get(name)
        if self._open if parameter is None else not _collects(parameter):
            return
        near = nearest(name, self._parameters)
        raise self._wrong(f"it has no parameter {name!r}" + (f"; did you mean {near!r}?" if near else ""))

    def _placed(self, words: list[str], taken: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the positional words; parameters in `taken` have their value already."""
        found, left = {}, list(words)
        for name, parameter in self._parameters.items():
            if not left or parameter.kind not in POSITIONAL or name in taken:
                continue
            if _item(self._hints.get(name)) is None or left[0].startswith("["):
                found[name] = self._typed(name, self._read(name, left.pop(0)))
            else:
                found[name] = self._typed(name, left)
                left = []
        if left:
            raise self._wrong(f"{left[0]!r} is one argument too many; its parameters are {', '.join(self._parameters)}")
        return found

    def _read(self, name: str, text: str) -> Any:
        """Return the value of one argument, given as text."""
        hint = self._hints.get(name, Any)
        if str in _members(hint):
            return text
        if type(None) in _members(hint) and text.lower() in ABSENT:
            return None
        if _item(hint) is not None and not _is_json(text):
            return [each for each in text.split(",") if each]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if _item(hint) is None:
                return text
            raise self._wrong(f"{name!r} begins with [ or {{, but is not valid JSON") from None

    def _typed(self, name: str, value: Any) -> Any:
        """Return a value with the declared type. Raises `ArgumentError`."""
        hint = self._hints.get(name, Any) if name in self._parameters else Any
        value = _records(value, hint)
        try:
            found = TypeAdapter(hint).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise self._wrong(f"{name!r} is wrong: {first['msg']}") from None
        several = _item(hint) is not None
        for each, written in zip(found, value, strict=True) if several else ((found, value),):
            self._demand_fields(name, each, written)
        return found

    def _demand_fields(self, name: str, record: Any, written: Any) -> None:
        """Refuse fields that a record does not have. In a result, such fields would go into `extra`."""
        if isinstance(record, Result) and isinstance(written, Mapping):
            fields = type(record).model_fields
            if unknown := sorted(map(str, written.keys() - fields)):
                near = nearest(unknown[0], fields)
                hint = f"; did you mean {near!r}?" if near else ""
                raise self._wrong(f"{name!r} has no field {unknown[0]!r}{hint}")

    def _wrong(self, why: str) -> ArgumentError:
        return ArgumentError(f"cannot call {self._name}: {why}")


def is_secret(hint: Any) -> bool:
    """Return whether an annotation, or a part of it (`Secret | None`), is marked as secret."""
    return any(part is SECRET or is_secret(part) for part in get_args(hint))


def shown(value: Any) -> Any:
    """Return a result or an argument as plain data for JSON, with secret fields masked."""
    if isinstance(value, Result):
        fields = type(value).model_fields
        found = {name: MASK if item and SECRET in fields[name].metadata else shown(item) for name, item in value}
        extra = found.pop("extra")
        return {**found, "extra": extra} if extra else found
    if isinstance(value, Mapping):
        return {str(key): shown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [shown(item) for item in value]
    return value


def brief(value: Any) -> Any:
    """Return an argument as plain data without defaults; a record that has only a name becomes that name."""
    if isinstance(value, Result):
        fields = type(value).model_fields
        given = {
            name: brief(item) for name, item in value if item != fields[name].get_default(call_default_factory=True)
        }
        return given["name"] if given.keys() == {"name"} else given
    if isinstance(value, (list, tuple, set, frozenset)):
        return [brief(item) for item in value]
    return shown(value)


def things(interface: type[Interface], tool: str | None, arguments: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the uids of what a call changes; if the call names nothing, that of all things of the kind (`ANY`)."""
    kind = interface.thing or tool or interface.module
    named = {name for parameter in NAMING for name in _names(arguments.get(parameter, ()))} or {ANY}
    services = {f"{name}.service" for name in named} if kind == "unit" else set()
    return frozenset((kind, name) for name in named | services)


def _names(value: Any) -> list[str]:
    items = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return [str(getattr(item, "name", item)) for item in items]


def _collects(parameter: Parameter) -> bool:
    return parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the only type."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _item(hint: Any) -> Any:
    """Return the type of the items if an annotation takes several values, else None."""
    for member in _members(hint):
        if get_origin(member) in MANY:
            return get_args(member)[0]
    return None


def _is_json(text: str) -> bool:
    return text.startswith(("[", "{"))


def _records(value: Any, hint: Any) -> Any:
    """Return a value in the form that its type expects: one value for several, a name for a record with that name."""
    item = _item(hint)
    if item is None:
        return _record(value, hint)
    if isinstance(value, (str, Mapping)):
        value = [value]
    return [_record(each, item) for each in value] if isinstance(value, (list, tuple)) else value


def _record(value: Any, item: Any) -> Any:
    """Return a value for a record; a name alone is a record with this name."""
    if not (inspect.isclass(item) and issubclass(item, Result)) or not isinstance(value, str):
        return value
    if not _is_json(value):
        return {"name": value}
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
