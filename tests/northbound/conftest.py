"""One etcd for all tests of a process; each test uses keys of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import etcd_server


@pytest.fixture(scope="session")
def etcd() -> Iterator[etcd_server.Cluster]:
    """A cluster of one member. The test is skipped where etcd is not installed; on CI that is an error."""
    if not etcd_server.installed() and not os.environ.get("CI"):
        pytest.skip("etcd is not installed (Debian: etcd-server)")
    with etcd_server.Cluster() as cluster:
        yield cluster
