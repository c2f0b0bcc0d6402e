"""What holds for all tests."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

import etcd_server
from extent import CI
from fake_machine import Action, Machine, Setting
from holdfast.resources.interfaces import registry as interfaces
from no_other_agent import hide_other_agent
from virtual_time import VirtualLoop

# A busy machine is no failure of a property. CI tries the same examples each time, so that a run is red for what was
# changed; looking for new ones is the work of every other run, and of scripts/fuzz.
settings.register_profile("holdfast", deadline=None, derandomize=CI, print_blob=True, max_examples=100 if CI else 50)
settings.load_profile("holdfast")

hide_other_agent()

for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if (
        signal.getsignal(number) is signal.SIG_IGN
    ):  # as in the background of a script; commands that tests start would ignore it, too
        signal.signal(number, handler)

# Tests put the list of providers back as it was. A built-in one that a test is the first to need would be lost then.
for name in interfaces.names():
    interfaces.offers(interfaces.demand(name))

T = TypeVar("T")
CLOCK = time.time
LONGEST = (
    "tests/lab/test_chaos.py",
    "tests/engine/test_simulation.py",
    "tests/salt/test_same_as_salt.py",
    "tests/engine/test_crashes.py",
    "tests/resources/test_adversary.py",
    "tests/lab/test_users_attack.py",
    "tests/conformance/test_pkg.py",
    "tests/lab/test_packages.py",
    "tests/lab/test_shelf.py",
    "tests/lab/test_the_service.py",
    "tests/daemon/test_running_agent.py",
    "tests/lab/test_power.py",
    "tests/lab/test_services.py",
    "tests/daemon/test_sources.py",
    "tests/states/test_properties.py",
)
"""Modules that run first in several processes: the run ends when the last module ends."""
SAMPLED = (
    "tests/conformance",
    "tests/lab",
    "tests/remote",
    "tests/idl/test_new_typescript_package.py",
    "tests/project/test_benchmarks.py",
)
"""Tests that boot hosts or start servers or compilers, which take much time: `--sample` runs one in `ONE_IN`."""
ONE_IN = 8
MEASURES = frozenset({"effort", "longest_pause", "callbacks", "longest_callback", "within"})
"""What measures time: other tests disturb the tests that call it."""


def pytest_xdist_auto_num_workers() -> int:
    """Return two processes for each CPU: many tests wait, for a host, a command or an event.

    On CI there is one more: the chaos test occupies one for ten minutes, and two thirds of that it waits.
    """
    return 2 * len(os.sched_getaffinity(0)) + CI


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--timing` and `--sample`."""
    text = "run tests that measure time with the others, not at all, or alone"
    parser.addoption("--timing", choices=["with", "without", "alone"], default="with", help=text)
    text = f"run one in {ONE_IN} of the tests that boot hosts or start servers or compilers; the number says which"
    parser.addoption("--sample", type=int, metavar="NUMBER", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what `--timing` and `--sample` ask for. In several processes, put the longest modules first."""
    out: set[pytest.Item] = set()
    if (timing := config.getoption("--timing")) != "with":
        out |= {item for item in items if measures_time(item) is not (timing == "alone")}
    if (number := config.getoption("--sample")) is not None:
        folders = [config.rootpath / folder for folder in SAMPLED]
        out |= left_out([item for item in items if any(map(item.path.is_relative_to, folders))], number)
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]
    if hasattr(config, "workerinput"):
        places = {config.rootpath / module: place for place, module in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module without tests that measure time if these run alone."""
    if config.getoption("--timing") != "alone" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    return None if any(name in text for name in MEASURES) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exempt the collected tests, a million objects that stay, from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def left_out(cases: Sequence[T], number: int) -> set[T]:
    """Return the cases that are not in this sample, which has one in `ONE_IN` of them, at equal distances."""
    return {*cases} - {*cases[number % ONE_IN :: ONE_IN]}


def measures_time(item: pytest.Item) -> bool:
    """Return whether a test itself calls one of the functions that measure time."""
    return isinstance(item, pytest.Function) and not MEASURES.isdisjoint(item.function.__code__.co_names)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests that use the fixture `virtual_time` in a virtual loop."""
    virtual = isinstance(item, pytest.Function) and "virtual_time" in item.fixturenames
    return {"virtual": VirtualLoop} if virtual else {"real": asyncio.new_event_loop}


@pytest.fixture
def virtual_time() -> None:
    """Make the test run in virtual time: see `virtual_time.py`."""


@pytest.fixture
def machine(virtual_time: None) -> Machine:
    """An empty fake machine."""
    machine = Machine()
    Setting.machine = Action.machine = machine
    return machine


@pytest.fixture(scope="session")
def etcd() -> Iterator[etcd_server.Cluster]:
    """One etcd with one member for all tests of a process; each test uses keys of its own.

    The test is skipped where etcd is not installed; on CI that is an error.
    """
    if not etcd_server.installed() and not CI:
        pytest.skip("etcd is not installed (Debian: etcd-server)")
    with etcd_server.Cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _clock_is_given_back() -> Iterator[None]:
    """A test that leaves a clock of its own behind makes others fail."""
    yield
    left, time.time = time.time, CLOCK
    assert left is CLOCK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """On CI everything the tests need is there: a skipped test is one that did not run."""
    skipped = terminalreporter.stats.get("skipped", [])
    if CI and skipped:
        terminalreporter.section("skipped on CI: a failure")
        for report in skipped:
            terminalreporter.line(
                f"{report.nodeid}: {report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr}"
            )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Make it so."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if CI and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
