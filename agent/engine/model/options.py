"""What an operator may set about the engine; part of agent.yaml."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class EngineOptions(BaseModel):
    """Defaults of the engine. Times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    noop: bool = False
    """Check and report only; repair nothing."""
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """Resources that may run at once after the first pass. Default: the number of CPUs."""
    ordering: Literal["definition", "requisites"] = "definition"
    """`definition`: on the first pass of new states each waits for all before it, as their author read them."""
    recheck: float = Field(900.0, ge=0)
    """Period of the full check that finds what no watch told; 0 turns it off."""
    recheck_splay: float = Field(60.0, ge=0)
    """Up to so much is added to it at random, so that a fleet does not check in step."""
    stop_timeout: float = Field(4.0, ge=0)
    """What runs may finish for so long when the agent stops; then it is cancelled and its commands are killed."""
    converged_timeout: float = Field(0.0, ge=0)
    """How long nothing must happen before the host counts as converged."""
    failhard: bool = False
    """One-shot runs stop at the first failure."""
    limit: float | None = Field(None, gt=0)
    """Runs per second of one resource; None: no limit."""
    burst: int = Field(10, ge=1)
    """Runs of one resource that may follow each other without a wait when there is a limit."""
    disabled: tuple[str, ...] = ()
    """States that are left alone: patterns (`*`, `?`) of `kind[id]`, or of the SLS in which they stand. What requires them goes on."""
    autoedge: bool = True
    """Whoever needs what another state makes waits for it: a file for its directory, a service for its package."""
    flap_limit: int = Field(10, ge=1)
    """More repairs of one resource than this within `flap_window` mean that somebody fights us."""
    flap_window: float = Field(60.0, gt=0)
    """See flap_limit."""
