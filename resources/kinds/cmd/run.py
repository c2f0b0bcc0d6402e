"""`cmd.run` and `cmd.wait`: commands as written in the state."""

from __future__ import annotations

from holdfast.resources.context import Context
from holdfast.resources.kinds.cmd.command import Active, Command


class Run(Active, kind="cmd.run"):
    """A shell command.

    refresh the search index:
      cmd.run:
        - name: make -C /srv/search index
        - runas: search
        - creates: /srv/search/index.db
    """


class Wait(Command, kind="cmd.wait"):
    """A shell command that runs only when a state it watches has changed.

    newaliases:
      cmd.wait:
        - watch:
          - file: /etc/aliases
    """

    def action(self) -> bool:
        """Return False: without a change of a watched state, the command does not run."""
        return False

    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing."""
        ctx.report.comment = "waits for a change of a watched state"
        return True
