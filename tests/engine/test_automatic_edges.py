"""Automatic edges in the agent order and wake vertices, but gate nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from deadline import DEADLINE
from engine_bench import Bench, compilation, state
from fake_machine import FakeContext, Machine
from holdfast import Context, Permanent, Watch
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.autoedges import TIMEOUT, AutoEdges
from holdfast.agent.engine.model.events import Event, Notice, Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.host.host import LocalHost
from holdfast.agent.narrate import Narrator
from holdfast.resources import registry
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec, ServiceStatus
from holdfast.resources.meta import Meta
from holdfast.states.data import Call, Compilation
from holdfast.states.parse.marks import Document, Spot


def placed(name: str, within: str = "", **spec: Any) -> tuple[Any, ...]:
    """Declare a setting that may depend on another one."""
    return state(name, "zplaced.present", within=within, **spec)


async def test_downstream_waits_while_upstream_is_unsettled(bench: Bench, machine: Machine) -> None:
    """Resources that drift together are repaired in the order of their dependencies."""
    async with bench.running(placed("dir"), placed("file", "dir"), workers=4):
        bench.forget()

        machine.settings.clear()
        machine.touch("file")
        machine.touch("dir")
        await bench.elapse(1)

        assert [line for line in machine.log if line.startswith("apply")] == ["apply dir", "apply file"]
        assert not any(outcome.result is False for name in ("dir", "file") for outcome in bench.outcomes(name))


async def test_what_belongs_to_a_recreated_owner_is_checked_again(bench: Bench, machine: Machine) -> None:
    """A recreated user has another number, which no watch of the user's files reports.

    Resources that only run later are not checked, and none is if the owner is as declared.
    """
    mine, required = placed("mine", owner="he"), state("required", "zplaced.present", owner="he", require=["he"])
    async with bench.running(placed("he"), mine, required, state("other", "zplaced.present", require=["he"])):
        bench.forget()

        machine.drift("he")
        await bench.elapse(1)
        assert [len(bench.outcomes(name)) for name in ("he", "mine", "required", "other")] == [1, 1, 1, 0]
        machine.touch("he")
        await bench.elapse(1)
        assert [len(bench.outcomes(name)) for name in ("he", "mine", "required", "other")] == [2, 1, 1, 0]


async def test_a_failed_upstream_does_not_gate(bench: Bench, machine: Machine) -> None:
    """No state declares the dependency, so the downstream vertex runs and succeeds."""
    machine.settings["dir"] = "wrong"
    machine.broken["dir"] = Permanent("no")
    async with bench.running(placed("dir"), placed("file", "dir")):
        assert [outcome.result for outcome in bench.outcomes("dir")] == [False]
        assert [(outcome.result, outcome.ran) for outcome in bench.outcomes("file")] == [(True, True)]


async def test_a_failed_vertex_is_checked_again_when_its_upstream_recovers(bench: Bench, machine: Machine) -> None:
    """It needs no retry, no event of its own and no recheck."""
    machine.broken["dir"] = Permanent("no")
    async with bench.running(placed("dir"), placed("file", "dir"), placed("other")) as engine:
        assert [outcome.comment for outcome in bench.outcomes("file")] == ["dir is missing"]
        bench.forget()

        machine.broken.clear()
        engine.trigger("zplaced.present[dir]")
        await engine.settle()

        assert [(outcome.result, outcome.cause) for outcome in bench.outcomes("file")] == [(True, "recovery")]
        assert bench.outcomes("other") == []


async def test_a_failed_vertex_is_checked_again_when_its_upstream_changes(bench: Bench, machine: Machine) -> None:
    """The upstream vertex had not failed before. A vertex that is as declared is not checked."""
    async with bench.running(placed("dir"), placed("bad", "dir"), placed("good", "dir")):
        del machine.settings["dir"]
        machine.drift("bad")
        await bench.elapse(1)
        assert bench.outcomes("bad")[-1].result is False
        bench.forget()

        machine.touch("dir")
        await bench.elapse(1)

        assert [outcome.result for outcome in bench.outcomes("bad")] == [True]
        assert bench.outcomes("good") == []


async def test_an_edge_against_the_definition_order_is_dropped_with_one_warning(bench: Bench, machine: Machine) -> None:
    """The warning is not repeated at each swap."""
    states = (placed("file", "dir"), placed("dir"))
    async with bench.starting() as engine:
        for _ in range(3):
            await engine.swap(compilation(*states))
            await engine.settle()

        (notice,) = bench.notices("edge-dropped")
        assert (notice.identity, notice.level) == ("zplaced.present[file]", "warning")
        assert "zplaced.present[dir] (test.sls:2) comes after it" in notice.text
        assert notice.text.endswith("; require 'zplaced: dir', or move the state down")
        assert Narrator().tell(notice).text == notice.text
        assert machine.log.index("apply dir") > machine.log.index("check file")


@pytest.mark.parametrize("where", ["settings", "state"])
async def test_autoedge_false_removes_all_automatic_edges(bench: Bench, machine: Machine, where: str) -> None:
    """Vertices do not wait for each other, and are not woken."""
    meta = {"autoedge": False} if where == "state" else {}
    machine.broken["dir"] = Permanent("no")
    async with bench.running(placed("dir"), placed("file", "dir", meta=meta), autoedge=where != "settings") as engine:
        machine.broken.clear()
        engine.trigger("zplaced.present[dir]")
        await engine.settle()

        assert [outcome.result for outcome in bench.outcomes("file")] == [False]


async def test_a_new_or_removed_edge_runs_no_unchanged_vertex(bench: Bench, machine: Machine) -> None:
    """The swap changes only automatic edges."""
    one, two = placed("dir"), placed("file", "dir")
    async with bench.running(two) as engine:
        machine.settings["dir"] = "right"
        engine.trigger("zplaced.present[file]")
        await engine.settle()
        bench.forget()

        await engine.swap(compilation(one, two))
        await engine.settle()
        assert bench.outcomes("file") == []
        assert [
            vertex.identity for vertex in engine.view.graph.by_identity["zplaced.present[file]"].links.upstream
        ] == ["zplaced.present[dir]"]

        await engine.swap(compilation(two))
        await engine.settle()
        assert bench.outcomes("file") == []
        assert engine.view.graph.by_identity["zplaced.present[file]"].links.upstream == ()


async def test_one_shot_outcomes_do_not_depend_on_automatic_edges(bench: Bench, machine: Machine) -> None:
    """Salt has none: what fails in Salt fails here, and each state runs once."""
    machine.broken["dir"] = Permanent("no")
    states = placed("a", "dir"), placed("dir"), placed("b", "dir"), placed("c", "a")
    results = []
    for autoedge in (True, False):
        machine.settings.clear()
        bench.forget()
        async with bench.running(*states, watch=False, autoedge=autoedge):
            results.append([(e.outcome.identity, e.outcome.result) for e in bench.events if isinstance(e, Ran)])

    assert results[0] == results[1]


# -- on this host ----------------------------------------------------------------------------------------------------


def compiled(*states: tuple[str, str, dict[str, Any]]) -> Compilation:
    """Return calls of real kinds in order of execution."""
    calls = []
    for position, (kind, name, arguments) in enumerate(states):
        cls = registry.find(kind)
        assert cls is not None
        family, _, function = kind.partition(".")
        low = {"state": family, "fun": function, "name": name, "__id__": name, "__sls__": "x"}
        calls.append(
            Call(
                position,
                f"{kind}[{name}]",
                low,
                Spot(Document("x.sls", "")),
                cls.declare(name, **arguments),
                Meta(),
                {},
            )
        )
    return Compilation(tuple(calls))


def test_a_removed_directory_is_restored_before_its_files(tmp_path: Path) -> None:
    """A directory with fifty files is removed at once; no repair fails."""
    top = tmp_path / "top"
    files = [top / "inner" / f"f{number}" for number in range(50)]
    states: Sequence[tuple[str, str, dict[str, Any]]] = [
        ("file.directory", str(top), {}),
        ("file.directory", str(top / "inner"), {}),
        *[("file.managed", str(file), {"contents": file.name}) for file in files],
    ]
    outcomes: list[Any] = []

    async def scenario() -> None:
        def emit(event: Event) -> None:
            if isinstance(event, Ran):
                outcomes.append(event.outcome)

        async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
            engine = Engine(host, EngineOptions(recheck=0, workers=4, flap_limit=1000), Journal(), emit)
            await engine.swap(compiled(*states), "start")
            for _ in range(5):  # until the reports of its own writes have arrived, too
                await engine.settle()
                await asyncio.sleep(0)
            outcomes.clear()
            shutil.rmtree(top)
            while not all(file.exists() for file in files):
                await asyncio.sleep(0.01)
            await engine.settle()
            await engine.stop()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))

    changed = [outcome.identity for outcome in outcomes if outcome.changed]
    assert not [outcome for outcome in outcomes if outcome.result is False]
    assert changed[:2] == [f"file.directory[{top}]", f"file.directory[{top / 'inner'}]"]
    assert set(changed[2:]) == {f"file.managed[{file}]" for file in files}


class Packages:
    """A package manager with one package, `nginx`, and the units that the package contains."""

    def __init__(self) -> None:
        self.installed = False
        self.broken = False
        self.done: list[str] = []
        self.events: list[asyncio.Queue[None]] = []

    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Pkg]]:
        """Return the package if it is installed."""
        return {"nginx": [Pkg(name="nginx", version="1", arch="all")]} if self.installed else {}

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return nothing: no state wants the newest version."""
        return {}

    async def install(self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, **_: Any) -> ChangeSet:
        """Install the package, or raise what the test wants."""
        self.done.append("install")
        if self.broken:
            raise Permanent("no mirror can be reached")
        self.installed = True
        return ChangeSet(changes={"nginx": {"old": "", "new": "1"}})

    async def owners(self, names: Sequence[str], paths: Collection[str]) -> dict[str, list[str]]:
        """Return the owner of the path, whose unit has another name."""
        return {"/usr/lib/systemd/system/web.service": ["nginx"]}

    async def watch(self, catalogue: bool = False) -> Watch:
        """Watch the database."""
        queue: asyncio.Queue[None] = asyncio.Queue()
        self.events.append(queue)
        yield None
        while True:
            yield await queue.get()

    def tell(self) -> None:
        """Report a change of the package or of its files."""
        for queue in self.events:
            queue.put_nowait(None)


class Services(Packages):
    """A service manager that can start the service after the package is installed."""

    def __init__(self, packages: Packages) -> None:
        super().__init__()
        self.packages, self.done = packages, packages.done

    async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
        """Return that the service runs while the package is installed."""
        active = self.installed and self.packages.installed
        return {
            name: ServiceStatus(
                name=name, exists=self.packages.installed, active=active, state="active" if active else "inactive"
            )
            for name in names
        }

    async def start(self, name: str, **_: Any) -> None:
        """Start the service if its unit exists."""
        self.done.append("start")
        if not self.packages.installed:
            raise Permanent("there is no such unit")
        self.installed = True

    def watch(self, names: Any = ()) -> Watch:
        """Watch the unit."""
        return super().watch()


async def with_packages(
    tmp_path: Path, service: str, scenario: Callable[[Engine, Packages, Services], Awaitable[None]]
) -> None:
    """Run a scenario with an engine that maintains a package and a service; both are fake, and as declared."""
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        packages = Packages()
        services = Services(packages)
        host.interfaces._bound.update({("pkg", None): packages, ("service", None): services})
        engine = Engine(host, EngineOptions(recheck=0, workers=4), Journal(), lambda _: None)
        await engine.swap(compiled(("pkg.installed", "nginx", {}), ("service.running", service, {})), "start")
        await engine.settle()
        assert packages.done == ["install", "start"]
        packages.done.clear()
        await scenario(engine, packages, services)
        await engine.stop()


@pytest.mark.parametrize("service", ["nginx", "web"])
def test_a_removed_package_is_installed_before_its_service_starts(tmp_path: Path, service: str) -> None:
    """The service has the name of the package, or the package database names it."""

    async def scenario(engine: Engine, packages: Packages, services: Services) -> None:
        packages.installed = services.installed = False
        services.tell()
        packages.tell()
        while not services.installed:
            await asyncio.sleep(0)
        await engine.settle()

        assert packages.done == ["install", "start"]

    asyncio.run(asyncio.wait_for(with_packages(tmp_path, service, scenario), DEADLINE))


def test_a_failed_service_is_started_when_its_package_is_installed_again(tmp_path: Path) -> None:
    """The installation failed because of the mirror, and so did the service."""

    async def scenario(engine: Engine, packages: Packages, services: Services) -> None:
        packages.installed = services.installed = False
        packages.broken = True
        services.tell()
        packages.tell()
        while packages.done != ["install", "start"]:
            await asyncio.sleep(0)
        await engine.settle()
        packages.broken = False
        engine.trigger("pkg.installed[nginx]")
        while not services.installed:
            await asyncio.sleep(0)
        await engine.settle()

        assert packages.done == ["install", "start", "install", "start"]

    asyncio.run(asyncio.wait_for(with_packages(tmp_path, "nginx", scenario), DEADLINE))


class Silent(FakeContext):
    """The context of a host whose package database does not answer."""

    def interface(self, name: str) -> Any:
        """Return this object as any interface."""
        return self

    async def owners(self, names: Sequence[str], paths: Collection[str]) -> dict[str, list[str]]:
        """Wait forever."""
        await asyncio.Event().wait()
        return {}


async def test_states_do_not_wait_for_a_package_database_that_does_not_answer(virtual_time: None) -> None:
    """Its edges are unknown then; edges that follow from the states alone exist."""
    told: list[Notice] = []
    calls = compiled(("pkg.installed", "nginx", {}), ("service.running", "nginx", {})).calls
    edges = await AutoEdges(lambda identity: cast("Context", Silent(identity)), told.append).find(calls)

    assert asyncio.get_running_loop().time() == TIMEOUT
    assert edges == {1: (0,)}
    assert [notice.text for notice in told] == [
        f"the files of packages are unknown: the provider did not answer within {TIMEOUT:g} s"
    ]
