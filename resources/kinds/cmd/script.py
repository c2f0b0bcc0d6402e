"""`cmd.script`: a script from the states directory or elsewhere."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal

from holdfast.resources import paths
from holdfast.resources.accounts import account
from holdfast.resources.context import Context
from holdfast.resources.effects import Effect
from holdfast.resources.fields import Given, Variables
from holdfast.resources.kinds._commands import interpreter, text_of, words_of, written
from holdfast.resources.kinds.cmd.command import Active
from holdfast.resources.traits import FromSources, UsedSource


class Script(FromSources, Active, kind="cmd.script"):
    """A script from the states directory or elsewhere, run with arguments.

    migrate:
      cmd.script:
        - source: salt://app/migrate.sh
        - args: --to 12
        - creates: /var/lib/app/migrated-12
    """

    name: Given
    """URL of the script; with `source`, only a title. Default: the ID of the state."""
    source: str | None = None
    """URL of the script. Default: the name."""
    args: str = ""
    """Arguments, quoted as in a shell."""
    template: Literal["jinja"] | None = None
    """Render the script before it runs."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""

    def program(self) -> str:
        """Return the path of the script if it is on this host."""
        return (self.source or self.name).removeprefix("file://")

    def used_sources(self) -> tuple[UsedSource, ...]:
        """Return the script, so that new content makes the state a new action, which runs."""
        return (UsedSource(self._parts()[0], template=self.template is not None),)

    def _parts(self) -> tuple[str, str]:
        """Return the URL of the script and its arguments."""
        url, _, words = (self.source, "", self.args) if self.source else self.name.partition(" ")
        return url, words or self.args

    async def execute(self, ctx: Context, apply: bool) -> bool:
        """Fetch the script and run it. Raises `Permanent` if it cannot be fetched or fails."""
        url, words = self._parts()
        if not apply:
            ctx.report.did(Effect(("run",), f"the script {url}"), applied=False)
            return False
        user = await ctx.blocking(account, self.runas) if self.runas else None
        # Root must execute or render only files that root owns.
        script = await ctx.source(url, trusted=bool(self.template) or user is None or user.uid in paths.trusted_uids())
        if self.template:
            variables = {**(self.defaults or {}), **(self.context or {})}
            script = ctx.render(text_of(script, url), name=url, variables=variables).encode()
        # Other users have no access to the agent's directory.
        directory = "/tmp" if user else str(ctx.var_dir)  # noqa: S108 - the name is random, and the file is new
        place = written(script, directory, user.uid if user and os.geteuid() == 0 else -1)
        try:
            done = await self.start(ctx, url, *interpreter(script, self.shell), place.path, *words_of(words))
        finally:
            with suppress(
                FileNotFoundError, IsADirectoryError
            ):  # a script may remove itself, or its user may put a directory in its place
                place.unlink(own=True)
        return self.conclude(ctx, done, url)
