"""Refuses states that need a function which their provider on this host lacks, before any state runs.

If no provider fits at all, no state is refused: another state may install the tool, and states for another host must
stay checkable. `check` then warns, once for each interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.resources.contract import Resource
from holdfast.resources.errors import HoldfastError
from holdfast.resources.logger import NoLog
from holdfast.resources.needs import Need
from holdfast.states.data import Call
from holdfast.states.errors import Problem

if TYPE_CHECKING:
    from holdfast.resources.interfaces.provider import Offer
    from holdfast.resources.interfaces.rows import Described

MISSING = ("not implemented", "not supported")
"""The states of functions that cannot be used."""
HINT = "leave out what needs it, or choose another provider in agent.yaml: `providers: {{{module}: ...}}`"


class GrainsOnly:
    """The host for the choice of a provider: only its grains are known."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.log = NoLog()

    @staticmethod
    def system_path(path: Path) -> Path:
        """Return the path itself."""
        return path


class FunctionCheck:
    """Finds the states that need a missing function, with the given grains and choice of providers.

    The functions of each interface are determined once. Blocks: providers are imported.
    """

    def __init__(self, facts: Mapping[str, Any], providers: Mapping[str, str], *, strict: bool) -> None:
        self._host: Any = GrainsOnly(facts)
        self._providers, self._strict = providers, strict
        self._decided: dict[tuple[type[Any], str | None], tuple[str, Mapping[str, Described] | None]] = {}
        """Interface and tool -> the chosen tool with its functions, or the reason why there is none."""

    def errors(self, calls: Sequence[Call]) -> Iterator[Problem]:
        """Yield a problem for each call and each reason for which it lacks functions."""
        for call, needs in _needs(calls):
            lacking: dict[tuple[str, str], list[str]] = {}
            for need in needs:
                tool, functions = self._functions(need)
                found = None if functions is None else functions.get(need.function)
                if found and found.row.state in MISSING:
                    why = f"{found.row.state} by {tool}, the provider on this host"
                    reason = f" ({found.why})" if found.why else ""
                    lacking.setdefault((need.interface.module, why + reason), []).append(need.function)
            for (module, why), names in lacking.items():
                listed = " and ".join(f"{module}.{name}" for name in names)
                text = f"{call.identity} needs {listed}: {'this is' if len(names) == 1 else 'these are'} {why}"
                yield Problem(call.location, "function-lacking", text, HINT.format(module=module))

    def warnings(self, calls: Sequence[Call]) -> Iterator[Problem]:
        """Yield a problem for each interface that has no provider here, at the first state that needs it."""
        told = set()
        for call, needs in _needs(calls):
            for why, functions in map(self._functions, needs):
                if functions is None and why not in told:
                    told.add(why)
                    yield Problem(call.location, "provider-missing", why)

    def _functions(self, need: Need) -> tuple[str, Mapping[str, Described] | None]:
        key = (need.interface, need.tool)
        if key not in self._decided:
            self._decided[key] = self._decide(need)
        return self._decided[key]

    def _decide(self, need: Need) -> tuple[str, Mapping[str, Described] | None]:
        from holdfast.resources.interfaces.decisions import decide  # noqa: PLC0415 - few states need it
        from holdfast.resources.interfaces.provider import functions  # noqa: PLC0415 - the same
        from holdfast.resources.interfaces.registry import choose, choose_named  # noqa: PLC0415 - the same

        try:
            offer: Offer | None
            if need.interface.chosen_by_name:
                offer, why = choose_named(need.interface, self._host, need.tool, strict=self._strict), ""
            else:
                override = self._providers.get(need.interface.module)
                choice = choose(need.interface, self._host, override, strict=self._strict)
                offer, why = choice.offer, choice.why
        except HoldfastError as error:
            return str(error), None
        if offer is None:
            return why, None
        return offer.tool, decide(offer, functions(offer.source), self._host.facts)


def _needs(calls: Sequence[Call]) -> Iterator[tuple[Call, tuple[Need, ...]]]:
    for call in calls:
        if type(call.resource).needs is not Resource.needs:
            yield call, call.resource.needs()
