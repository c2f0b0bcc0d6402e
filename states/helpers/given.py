"""The names that every template is given."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context

from holdfast.states.helpers.calls import Calls
from holdfast.states.helpers.table import TABLE
from holdfast.states.match import Host, matches
from holdfast.states.world import TemplateStop, World


def variables(world: World) -> dict[str, Any]:
    """Names and their values."""
    return {
        "salt": Calls(world, TABLE),
        "grains": world.grains,
        "pillar": world.pillar,
        "opts": world.opts(),
        "saltenv": world.env,
        **_functions(world),
    }


def _functions(world: World) -> dict[str, Any]:
    """Functions that templates have without `salt`."""

    def stop(text: object = "") -> None:
        raise TemplateStop(str(text))

    host = Host(world.minion_id, world.grains, world.pillar, world.options)

    def ifelse(*args: Any) -> Any:
        if len(args) % 2 == 0:
            raise ValueError("ifelse takes pairs of a condition and a value, and last a value for when none holds")
        for condition, value in zip(args[::2], args[1::2], strict=False):
            if condition is True or (isinstance(condition, str) and matches("compound", condition, host)):
                return value
        return args[-1]

    return {"raise": stop, "ifelse": ifelse, "odict": OrderedDict, "show_full_context": show_full_context}


@pass_context
def show_full_context(context: Context) -> dict[str, Any]:
    """Every name of a template with its value, but for those that are no data."""
    return {key: _simple(value) for key, value in context.get_all().items() if key.isidentifier()}


def _simple(value: Any) -> Any:
    """The data in a value; what is none by its kind."""
    if isinstance(value, Mapping):
        return {str(key): _simple(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_simple(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else type(value).__name__
