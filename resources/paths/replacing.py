"""Calls the keeper before a file is replaced, removed or changed: the agent keeps the file (agent/host/kept.py).

The operations of a `Place` call the keeper of the present run, so kinds and providers need not know of it. Outside of
a run there is no keeper.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any, Protocol


class Keeper(Protocol):
    """Keeps the files that one run replaces. A file that it cannot keep is replaced all the same; no method raises."""

    def keep(self, place: Any, new: Any) -> None:
        """Keep the entry of a `Place`, which is about to be removed or replaced by the entry of `new`."""
        ...

    def prepare(self, place: Any, new: Any) -> None:
        """Do the slow part of `keep` early, and report nothing: the run may still leave the entry as it is."""
        ...

    def note(self, place: Any, info: os.stat_result) -> None:
        """Note owner and mode of an entry, which are about to change."""
        ...


KEEPER: ContextVar[Keeper | None] = ContextVar("keeper of the present run", default=None)


def about_to_replace(place: Any, new: Any) -> None:
    """Tell the keeper, if there is one, that an entry is about to be replaced. May block."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.keep(place, new)


def likely_to_replace(place: Any, new: Any) -> None:
    """Tell the keeper, if there is one, that an entry will be replaced unless a check prevents it. May block."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.prepare(place, new)


def about_to_change(place: Any, info: os.stat_result) -> None:
    """Tell the keeper, if there is one, that owner or mode of an entry are about to change."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.note(place, info)
