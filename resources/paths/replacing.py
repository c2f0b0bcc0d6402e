"""What is done with a file before it is replaced, removed or changed: the agent keeps it (agent/host/kept.py).

The operations of a `Place` call the keeper of the present run, so kinds and providers need not know of it. Outside of
a run there is no keeper.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import Any, Protocol


class Keeper(Protocol):
    """Keeps what one run replaces. Its methods may block, and raise nothing: what cannot be kept is still replaced."""

    def keep(self, place: Any, new: Any) -> None:
        """Keep the entry of a `Place`, which is about to be removed or replaced by the entry of `new`."""
        ...

    def prepare(self, place: Any, new: Any) -> None:
        """Do what takes long in `keep`, ahead of it, and report nothing: the entry may still be left as it is."""
        ...

    def note(self, place: Any, info: os.stat_result) -> None:
        """Note owner and mode of an entry, which are about to change."""
        ...


KEEPER: ContextVar[Keeper | None] = ContextVar("keeper of the present run", default=None)


def about_to_replace(place: Any, new: Any) -> None:
    """Tell the keeper, if there is one. May block."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.keep(place, new)


def likely_to_replace(place: Any, new: Any) -> None:
    """Tell the keeper, if there is one, what a check may still prevent. May block."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.prepare(place, new)


def about_to_change(place: Any, info: os.stat_result) -> None:
    """Tell the keeper, if there is one."""
    keeper = KEEPER.get()
    if keeper is not None:
        keeper.note(place, info)
