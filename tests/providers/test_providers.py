"""Every `tests/providers/<interface>.<tool>/<behaviour>.yaml`; `resources/provider_testing.py` describes the files."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.case_files import CaseFailed, parsed
from holdfast.resources.interfaces import registry
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.provider_testing import SHARED, fits, run_provider_case
from holdfast.resources.providers.shadow import ShadowGroups

HERE = Path(__file__).parent
CASES = sorted(path for path in HERE.glob("*/*.yaml") if path.name != SHARED)
PROVIDERS = {
    f"{name}.{offer.tool}": offer.source
    for name in registry.names()
    for offer in registry.offers(registry.demand(name)).values()
    if offer.home.startswith(f"{registry.PACKAGE}.")
}


@pytest.mark.parametrize("case", CASES, ids=[f"{path.parent.name}-{path.stem}" for path in CASES])
def test_case(case: Path, tmp_path: Path) -> None:
    """The result, the commands and the files are as the case says, and a call with `test=True` changes nothing."""
    run_provider_case(case, tmp_path)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_function_of_a_provider_has_a_case(name: str) -> None:
    """Only `watch`, which returns no result, needs no case."""
    functions = {
        function
        for function, _ in inspect.getmembers(PROVIDERS[name], inspect.isfunction)
        if not function.startswith("_") and function != "watch"
    }
    called = {next(iter(parsed(case.read_text())["call"])) for case in CASES if case.parent.name == name}

    where = f"tests/providers/{name}/<behaviour>.yaml; resources/provider_testing.py describes these files"
    assert not functions - called, f"add a case for each function: {where}"


def test_a_case_needs_no_command_of_the_machine_that_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case answers for all commands; whether the provider fits the machine is not asked."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    run_provider_case(HERE / "language.gem" / "compare.yaml", tmp_path)


def test_a_case_of_a_provider_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    """The message lists the providers of the interface."""
    case = tmp_path / "group.shadwo" / "add.yaml"
    case.parent.mkdir()
    case.write_text("{call: {list: {}}, wanted: {result: []}}")

    with pytest.raises(CaseFailed, match="no provider 'shadwo' of group; available: busybox, shadow"):
        run_provider_case(case, tmp_path)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("call: {list: {}}\nwanted: {result: [x]}", r"the result of the call: wanted \['x'\], got \['root'\]"),
        ("call: {list: {}}\nwanted: {error: x}", "the error of the call: wanted 'x', got None"),
        ("call: {remove: {name: root}}\nwanted: {result: {}}", "the error of the call: wanted 'none', got"),
        (
            "{is: {commands: {groupdel root: ''}}, call: {remove: {name: root}}, wanted: {result: {}, calls: [ls]}}",
            r"the commands of the call: wanted \['ls'\], got \['groupdel root'\]",
        ),
        (
            "call: {remove: {name: root}}\nwanted: {error: no answer, temporary: true}",
            "whether the error of the call is temporary: wanted True, got False",
        ),
        ("call: {list: {}}\nwanted: {result: [root], bus: ['* X']}", r"no '\* X', in this order, among \[\]"),
        (
            "call: {list: {}}\nwanted: {result: [root], files: {'{root}/x': a}}",
            "x after the call: wanted 'a', got None",
        ),
    ],
)
def test_a_case_with_another_result_fails(tmp_path: Path, case: str, message: str) -> None:
    """The runner reports a wrong result, error, command, D-Bus call or file."""
    path = tmp_path / "group.shadow" / "wrong.yaml"
    path.parent.mkdir()
    path.write_text(case)
    (path.parent / SHARED).write_text('files: {"{root}/etc/group": "root:x:0:\\n"}')
    (tmp_path / "host").mkdir()

    with pytest.raises(CaseFailed, match=message):
        run_provider_case(path, tmp_path / "host")


def test_a_provider_that_ignores_test_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner reports a provider that changes the host with `test=True`."""

    async def remove(
        self: ShadowGroups, name: str, *, test: bool = False, options: Mapping[str, Any] | None = None
    ) -> ChangeSet:
        await self.host.run("groupdel", name)
        return ChangeSet(changes={name: {"old": "present", "new": None}})

    monkeypatch.setattr(ShadowGroups, "remove", remove)
    with pytest.raises(CaseFailed, match="whether the call with `test` changes the host: wanted False, got True"):
        run_provider_case(HERE / "group.shadow" / "remove.yaml", tmp_path)


def test_a_pattern_matches_any_text_at_its_stars() -> None:
    """All other characters must be equal."""
    assert fits("apt-get * [a]", "apt-get --quiet install [a]")
    assert not fits("apt-get * [a]", "apt-get --quiet install a")
