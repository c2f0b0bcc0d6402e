"""Odd texts in the arguments of each function of each provider: refused with a message, or passed on exactly."""

from __future__ import annotations

import asyncio
import inspect
import random
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from changing_only import changing_only_below
from holdfast.resources import provider_testing
from holdfast.resources.case_files import parsed
from holdfast.resources.context import Completed
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.provider_testing import FakeProviderHost
from odd_texts import ODD, PER_TEXT, demand_exact, replaced, texts

HERE = Path(__file__).parent
PROVIDERS = sorted(path.name for path in HERE.iterdir() if path.is_dir() and list(path.glob("*.yaml")))
AT_ONCE = 2.0
"""Timeout of a call in seconds; the call may wait for a signal that never arrives."""


class Recording(FakeProviderHost):
    """A host whose commands are recorded with their argument lists; those that it does not know fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.argvs: list[tuple[str, ...]] = []

    async def run(self, *argv: str, check: bool = True, stdin: str | None = None, **options: Any) -> Completed:
        """Answer from the table, else with status 1."""
        if any("\0" in word for word in argv):
            raise Permanent("it cannot be started")  # as on a real host
        self.argvs.append(argv)
        try:
            return await super().run(*argv, check=check, stdin=stdin, **options)
        except Permanent:
            if check:
                raise
            return Completed(argv, 1, 1, "", "no such thing")


async def call(path: Path, steps: tuple[Any, ...], odd: str, root: Path) -> None:
    """Make the call of a case with another text at one place. Raises `AssertionError`."""
    case, host, bound = provider_testing._build(path, root)
    ((function, given),) = case["call"].items()
    arguments, odd = replaced(given, steps, odd, str(root))
    hints = get_type_hints(bound.interface.functions()[function])
    with suppress(HoldfastError, ValidationError, TimeoutError, OSError):
        made = {
            name: TypeAdapter(hints[name]).validate_python(value) if name in hints else value
            for name, value in arguments.items()
        }
        async with asyncio.timeout(AT_ONCE):
            result = getattr(bound, function)(**made)
            await result if inspect.isawaitable(result) else result
    for argv in host.argvs:
        demand_exact(argv, odd)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_odd_arguments_are_refused_or_passed_on_exactly(provider, tmp_path, monkeypatch):
    """An odd text replaces each text in the calls of the cases, one at a time."""
    monkeypatch.setattr(provider_testing, "FakeProviderHost", Recording)
    seen = set()
    paths = [path for path in sorted((HERE / provider).glob("*.yaml")) if path.name != provider_testing.SHARED]
    random.shuffle(paths)
    for number, path in enumerate(paths):
        ((function, given),) = parsed(path.read_text())["call"].items()
        for steps in texts(given or {}):
            place = (function, *(step for step in steps if not isinstance(step, int)))
            if place in seen:
                continue
            seen.add(place)
            for name in random.sample(list(ODD), PER_TEXT):
                root = tmp_path / f"{number} {len(seen)} {name} {steps}".replace("/", "_")[:200]
                try:
                    with changing_only_below(tmp_path):
                        asyncio.run(call(path, steps, ODD[name], root))
                except Exception as error:
                    raise AssertionError(f"{name} in {steps} of {path.name}: {error!r}") from error
