"""What other hosts may know about this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.agent.health import HealthCondition


class Description(NamedTuple):
    """What other hosts may know about this one."""

    host: Mapping[str, Any]
    """The fields of its `Host`; empty while they are not known."""
    conditions: Sequence[HealthCondition]
    """The present problems of its agent."""


Describe = Callable[[], Description]
"""Returns the present description."""
