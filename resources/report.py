"""The `Report`: what one run of a resource says that it did."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.resources.effects import Effect
from holdfast.resources.replaced import ReplacedFile


@dataclass(slots=True, eq=False, repr=False)
class Report:
    """What one run reports: the resource fills it in, the engine reads it when the run has ended."""

    changes: dict[str, Any] = field(default_factory=dict)
    """What was changed, or would be, as Salt's `changes`."""
    comment: str = ""
    """One sentence for people: what was done, or why nothing had to be done."""
    diff: str = ""
    """Unified diff of text content, with secrets masked."""
    effect: Effect | None = None
    """What was done, or would be, in verbs; None if nothing was."""
    public: bool = False
    """Whether every user of this host could read what the run reports, so that viewers may see it."""
    ended: str = ""
    """How a service that the run found dead had ended: `web.service was killed by signal 9 (SIGKILL)`."""
    touched: bool = False
    """Whether the run has begun to change something. An error after that may leave the resource half repaired."""
    account: Callable[[], Awaitable[None]] | None = None
    """Awaited after an error: probes again, and reports in `changes` and `comment` the changes before the error."""
    sent: dict[str, Any] = field(default_factory=dict)
    """Values for other resources, key -> value."""
    replaced: list[ReplacedFile] = field(default_factory=list)
    """Files that were replaced, removed or changed in place; the host fills it in."""
    before: dict[str, Any] = field(default_factory=dict)
    """Values before the change, of properties that differed, with secrets masked."""
    known: Sequence[str] = ()
    """Noop: keys of sent values that the change would leave as they are, so that others may use them."""
    deletes_later: bool = False
    """Whether a later run must delete the thing, because some users have not run yet or the deletion failed."""

    def begin(self, account: Callable[[], Awaitable[None]]) -> None:
        """Note that the run begins to change something.

        If the run fails, `account` is awaited to find out what it has changed.
        """
        self.touched, self.account = True, account

    def did(self, effect: Effect, *, applied: bool) -> None:
        """Report an effect, and its sentence as the comment. `applied` is false in noop: the effect is only planned."""
        self.effect, self.comment = effect, effect.sentence(applied=applied)

    def changing(self) -> None:
        """Note that the run begins to change something. An error before this call has changed nothing."""
        self.touched = True


IDLE = Report()
"""Report of all resources that do not run at present."""
