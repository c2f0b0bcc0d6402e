"""Options of the engine; a part of agent.yaml."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.resources.fields import field


class EngineOptions(BaseModel):
    """Defaults of the engine. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    noop: bool = False
    """Check and report only; repair nothing."""
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """Resources that may run at once after the first pass. Default: the number of CPUs."""
    ordering: Literal["definition", "requisites"] = "definition"
    """`definition`: in the first pass of new states each state also waits for all states before it in the files."""
    recheck: float = field(900.0, unit="seconds", ge=0)
    """Period of the check of all resources, which finds changes that no watch reported; 0 turns it off."""
    recheck_splay: float = field(60.0, unit="seconds", ge=0)
    """Longest random delay added to `recheck`, so that the hosts of a fleet do not check at the same time."""
    stop_timeout: float = field(4.0, unit="seconds", ge=0)
    """Time for runs to finish when the agent stops; then they are cancelled and their commands are killed."""
    converged_timeout: float = field(0.0, unit="seconds", ge=0)
    """Time without activity after which the host counts as converged."""
    failhard: bool = False
    """One-shot runs stop at the first failure."""
    limit: float | None = field(None, unit="per second", gt=0)
    """Runs per second of one resource; None: no limit."""
    burst: int = Field(10, ge=1)
    """Runs of one resource that may follow each other without a wait if there is a `limit`."""
    disabled: tuple[str, ...] = ()
    """States that do not run: patterns (`*`, `?`) of `kind[id]` or of the SLS. States that require them do run."""
    autoedge: bool = True
    """A state waits for states that make what it needs: a file for its directory, a service for its package."""
    flap_limit: int = Field(10, ge=1)
    """A resource flaps if it is repaired more often than this within `flap_window`."""
    flap_window: float = field(60.0, unit="seconds", gt=0)
    """Window of `flap_limit`, and the longest interval between repairs of a flapping resource."""
