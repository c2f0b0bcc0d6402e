"""Fixtures of the conformance suites: a fresh host of the lab for each test, with one tool and its provider."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules of the suites and of the lab are not packages
sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import installed
import lab
import outside
from account_sites import AccountSite
from pkg_sites import PkgSite
from sites import ACCOUNT_TOOLS, PACKAGE_MANAGERS


@pytest.fixture(scope="session")
def run() -> Iterator[lab.Run]:
    """Create the run of this test process, and remove all its guests at the end."""
    if why := outside.missing():
        unusable(f"the lab cannot be used: {why}")
    with lab.running() as run:
        yield run


def unusable(why: str) -> None:
    """Skip the test with a reason; on CI fail."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(why)


@pytest.fixture(params=PACKAGE_MANAGERS, ids=lambda site: site.tool)
def site(run: lab.Run, request: pytest.FixtureRequest) -> Iterator[PkgSite]:
    """Return a fresh host without services, with one package manager, its repository, and Holdfast."""
    yield from package_site(run, "host", request.param)


@pytest.fixture(scope="module", params=PACKAGE_MANAGERS, ids=lambda site: site.tool)
def used_site(run: lab.Run, request: pytest.FixtureRequest) -> Iterator[PkgSite]:
    """Return such a host for all tests of a module that change no more than the packages."""
    yield from package_site(run, "used", request.param)


@pytest.fixture
def shared(used_site: PkgSite) -> PkgSite:
    """Return the shared host, without the packages of its repository."""
    used_site.reset()
    return used_site


def package_site(run: lab.Run, name: str, kind: type[PkgSite]) -> Iterator[PkgSite]:
    """Yield a host with one package manager."""
    if why := kind.missing():
        unusable(f"{kind.tool} cannot be tested: {why}")
    host = run.host(name, layers=[*installed.layers(run), *kind.layers(run)], init=lab.BARE)
    try:
        with kind(host) as site:
            yield site
    finally:
        host.down()


@pytest.fixture(scope="module", params=ACCOUNT_TOOLS, ids=lambda site: site.tool)
def account_site(run: lab.Run, request: pytest.FixtureRequest) -> Iterator[AccountSite]:
    """Return a host without services, with one set of tools for accounts, and Holdfast."""
    kind: type[AccountSite] = request.param
    if why := kind.missing():
        unusable(f"{kind.tool} cannot be tested: {why}")
    host = run.host(layers=[*installed.layers(run), *kind.layers(run)], init=lab.BARE)
    try:
        with kind(host) as site:
            yield site
    finally:
        host.down()


@pytest.fixture
def accounts(account_site: AccountSite) -> AccountSite:
    """Return the host, with the accounts of the fresh host."""
    account_site.reset()
    return account_site
