"""`pause` and `resume` for operators: words become patterns, and health reports the pauses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice
from holdfast.agent.engine.model.pause import EVERYTHING, covers
from holdfast.agent.engine.schedule.pauses import MOST
from holdfast.agent.health import Health
from holdfast.agent.insight.search import find, select
from holdfast.agent.phrases import first_of, number_of

PAUSED = "paused"
"""Code of the health condition that reports the pauses."""
REASON = 200
"""Most characters of a reason."""


class PauseCommands:
    """The pauses of one engine."""

    def __init__(self, engine: Engine, health: Health) -> None:
        self._engine, self._health = engine, health

    async def pause(self, words: Sequence[str], reason: str, seconds: float | None) -> dict[str, Any]:
        """Pause what the words name, or everything if there are none, for some time or until `resume`.

        `text` says what is paused until when. When this returns, the pause is on the disk. Raises `ControlError`.
        """
        if len(reason) > REASON:
            raise ControlError(f"cannot pause: a reason has at most {REASON} characters")
        patterns = [await self._pattern(word) for word in words]
        known = {each.pattern for each in self._engine.pauses}
        if len(known.union(patterns)) > MOST:
            raise ControlError(
                f"cannot pause: at most {MOST} pauses are possible at once; "
                "use patterns, or end some with `holdfast resume`"
            )
        try:
            await self._engine.pauses.begin(patterns, " ".join(reason.split()), seconds)
        except Unwritable as error:
            raise ControlError(
                f"it is paused, but a restart would end the pause: cannot write the journal: {error}"
            ) from error
        told = [each for each in self._engine.pauses if each.pattern in (patterns or (EVERYTHING,))]
        count = f" ({number_of(await self._count(patterns), 'resource')} now)" if patterns else ""
        return {"text": "; ".join(each.whole for each in told) + count}

    async def resume(self, words: Sequence[str]) -> dict[str, Any]:
        """End the pauses that the words name, or all; `text` lists remaining pauses. Raises `ControlError`."""
        known = [each.pattern for each in self._engine.pauses]
        patterns = [await self._known(word, known) for word in words] or known
        try:
            await self._engine.pauses.end(patterns)
        except Unwritable as error:
            raise ControlError(
                f"it is resumed, but paused again after a restart: cannot write the journal: {error}"
            ) from error
        left = [each.whole for each in self._engine.pauses]
        done = "resumed" if patterns else "nothing was paused"
        return {"text": f"{done}; still {'; '.join(left)}" if left else done}

    def tell(self, event: Event) -> None:
        """Handle an event of the engine: update the health condition, which lists the pauses."""
        if not isinstance(event, Notice) or event.code not in ("paused", "resumed"):
            return
        said = [each.whole for each in self._engine.pauses]
        if said:
            self._health.set(PAUSED, f"{first_of(said)}: drift is noticed, and not repaired")
        else:
            self._health.clear(PAUSED)

    async def _count(self, patterns: Collection[str]) -> int:
        """Return how many resources these patterns name."""
        covered = await select(self._engine.view.present, lambda vertex: any(covers(each, vertex) for each in patterns))
        return len(covered)

    async def _pattern(self, word: str) -> str:
        """Return the pattern for a word: patterns and names of SLS stay as they are, other words name one resource.

        Raises `ControlError` if a word names no resource, or several.
        """
        view = self._engine.view
        if not word:
            raise ControlError("cannot pause: a name is empty")
        if "*" in word or "?" in word:
            return word
        if word not in view.graph.by_identity and await select(
            view.present, lambda vertex: vertex.call.low["__sls__"] == word
        ):
            return word
        return (await find(word, view, "pause")).identity

    async def _known(self, word: str, known: Collection[str]) -> str:
        """Return the pattern of the pause that a word names. Raises `ControlError`."""
        if word in known and word:
            return word
        try:
            identity = await self._pattern(word)
        except ControlError:
            identity = word
        if identity in known:
            return identity
        raise ControlError(f"cannot resume {word}: {self._why_not(identity)}")

    def _why_not(self, identity: str) -> str:
        vertex = self._engine.view.graph.by_identity.get(identity)
        by = self._engine.policy.pause_of(vertex) if vertex else None
        if by is not None:
            how = (
                f"{by.pattern!r} is paused; `holdfast resume '{by.pattern}'`"
                if by.pattern
                else "everything is paused; `holdfast resume`"
            )
            return f"{how} ends that"
        said: Sequence[str] = [each.pattern or "everything" for each in self._engine.pauses]
        return f"it is not paused; {f'paused: {first_of(said)}' if said else 'no pause is in force'}"
