"""Optional powers of a kind, each a mix-in with the least possible number of methods.

The engine asks `isinstance(resource, Refreshable)`; a kind without the mix-in has not got the power, whatever
methods it happens to define.
"""

from __future__ import annotations

from abc import abstractmethod

from holdfast.resources.context import Context


class Refreshable:
    """Has an action for "something you watch has changed": Salt's `mod_watch`."""

    @abstractmethod
    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Act on the change (restart, reload, run again).

        The contract of `check_apply`: False when something was done, or would be without `apply`; True when nothing
        had to be. Delivered at least once, so doing it twice must be harmless.
        """
