"""Fields for tests that send every request of the control socket."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from holdfast.agent.control.request import ControlRequest

SAMPLES = {"str": "a.b[c]", "int": 1, "float": 1.0, "bool": True}
"""Type of a field -> a value; a request that needs a field of another type names the type here."""


def needed(request: type[ControlRequest]) -> dict[str, Any]:
    """Return a value for each field that a client must send."""
    without_default = (each for each in fields(request) if each.default is MISSING and each.default_factory is MISSING)
    return {each.name: SAMPLES[str(each.type)] for each in without_default}
