"""The process that evaluates sources: reads code from its input, confines itself, executes, and writes an answer.

The answer is JSON, which the parent does not trust. Code comes from the parent alone (`executable.py`).
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import gc
import inspect
import json
import marshal
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from types import CodeType, SimpleNamespace
from typing import Any

from holdfast.agent.idl import sandbox
from holdfast.agent.idl.names import LIMITS
from holdfast.resources import idl

BUILTINS = {"__build_class__": __build_class__, "object": object}
"""The names of the interpreter that the code of sources uses."""


class Evaluation:
    """Executes modules, and describes what they contain."""

    def __init__(self) -> None:
        self.modules: dict[str, dict[str, Any]] = {}

    def run(self, name: str, code: CodeType) -> dict[str, Any]:
        """Execute a module; return its description."""
        names = {"__name__": name, "__builtins__": {**BUILTINS, "__import__": self._import}}
        exec(code, names)  # noqa: S102 - this process exists for it
        self.modules[name] = names
        own = {key: value for key, value in names.items() if not key.startswith("__")}
        classes = {key: each for key, each in own.items() if isinstance(each, type) and each.__module__ == name}
        return {
            "constants": {key: plain(value) for key, value in own.items() if _is_value(value)},
            "limits": [_said(each) for each in names[LIMITS]],
            "classes": {key: describe(each) for key, each in classes.items()},
        }

    def _import(self, name: str, *_: object) -> Any:
        return SimpleNamespace(idl=idl) if name == "holdfast" else SimpleNamespace(**self.modules[name])


def _is_value(value: object) -> bool:
    return isinstance(value, (str, bytes, bool, int, float, list, tuple, dict, type(None)))


def describe(cls: type) -> dict[str, Any]:
    """Return the options, rules, fields and values of a class."""
    values: Iterable[Any] = cls if isinstance(cls, enum.EnumMeta) else ()
    return {
        "options": {key: plain(value) for key, value in getattr(cls, "idl_options", {}).items()},
        "rules": [[word, list(names)] for word, names in cls.__dict__.get(idl.RULES, ())],
        "fields": {name: _option_values(cls.__dict__[name]) for name in inspect.get_annotations(cls)},
        "members": [[each.name, each.value] for each in values],
    }


def _option_values(declared: Any) -> dict[str, Any]:
    return {**_said(declared), **_said(declared.limits)}


def _said(value: Any) -> dict[str, Any]:
    """Return the members of a dataclass that do not have their default, as data for JSON."""
    pairs = ((each, getattr(value, each.name)) for each in dataclasses.fields(value) if each.name != "limits")
    return {each.name: plain(given) for each, given in pairs if given is not each.default and given != each.default}


def plain(value: Any) -> Any:
    """Return a value as data for JSON: bytes and mappings are marked."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"map": [[key, plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def main() -> None:
    """Answer one request: the process of the parent, and the code of each module."""
    with open(0, "rb", closefd=False) as stream:
        parent, modules = marshal.load(stream)  # noqa: S302 - the parent has written it
    gc.disable()
    answer: dict[str, Any] = {"modules": {}}
    try:
        sandbox.confine(parent)
    except (sandbox.UnconfinedError, OSError, ValueError) as error:
        answer = {"unconfined": str(error)}
    else:
        evaluation = Evaluation()
        for name, code in modules:
            try:
                answer["modules"][name] = evaluation.run(name, code)
            except Exception as error:  # noqa: BLE001 - what a source does is not known
                answer["failed"] = {"module": name, "line": _line(error), "error": f"{type(error).__name__}: {error}"}
                break
    data = memoryview(json.dumps(answer).encode())
    while data:
        data = data[os.write(1, data) :]
    os._exit(0)


def _line(error: BaseException) -> int:
    """Return the line of a source at which an error was raised."""
    places = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    return places[-1] if places else 0


if __name__ == "__main__":
    sys.setrecursionlimit(1000)
    main()
