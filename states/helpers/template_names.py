"""The names that every template can use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context

from holdfast.states.helpers.calls import Calls
from holdfast.states.helpers.table import TABLE
from holdfast.states.view.host_view import HostView, TemplateStop
from holdfast.states.view.match import TargetHost, matches


def variables(view: HostView) -> dict[str, Any]:
    """Return the names that every template can use, and their values."""
    return {
        "salt": Calls(view, TABLE),
        "grains": view.grains,
        "pillar": view.pillar,
        "opts": view.opts(),
        "saltenv": view.env,
        **_functions(view),
    }


def _functions(view: HostView) -> dict[str, Any]:
    """Return functions that templates can call without `salt`."""

    def stop(text: object = "") -> None:
        raise TemplateStop(str(text))

    host = TargetHost(view.minion_id, view.grains, view.pillar, view.options)

    def ifelse(*args: Any) -> Any:
        if len(args) % 2 == 0:
            raise ValueError("ifelse takes pairs of a condition and a value, and finally a default value")
        for condition, value in zip(args[::2], args[1::2], strict=False):
            if condition is True or (isinstance(condition, str) and matches("compound", condition, host)):
                return value
        return args[-1]

    return {"raise": stop, "ifelse": ifelse, "odict": OrderedDict, "show_full_context": show_full_context}


@pass_context
def show_full_context(context: Context) -> dict[str, Any]:
    """Return every name of a template with its value; a value that is not data becomes the name of its type."""
    return {key: _simple(value) for key, value in context.get_all().items() if key.isidentifier()}


def _simple(value: Any) -> Any:
    """Return a value as plain data; anything else as the name of its type."""
    if isinstance(value, Mapping):
        return {str(key): _simple(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_simple(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
