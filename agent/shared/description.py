"""The description of this host for other hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.agent.health import HealthCondition


class Description(NamedTuple):
    """The public data of this host."""

    host: Mapping[str, Any]
    """The fields of its `Host`; empty while they are unknown."""
    conditions: Sequence[HealthCondition]
    """The present problems of the agent."""


Describe = Callable[[], Description]
"""Returns the present description."""
