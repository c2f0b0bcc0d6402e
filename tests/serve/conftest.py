"""An agent with a socket for viewers, and servers beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast_process import Agent, Tree
from serving import Serving
from strangers import UID
from viewed_agent import GID, viewed_agent


class Site(NamedTuple):
    """A running agent, and a directory of the user who serves."""

    agent: Agent
    tree: Tree
    home: Path

    def serving(self, *words: str, files: int = 0) -> Serving:
        """Start a server."""
        return Serving(self.home, self.tree.config, GID, *words, files=files)


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """One agent for all tests of this folder."""
    with viewed_agent() as viewed:
        home = viewed.top / "home"
        home.mkdir(mode=0o755)
        os.chown(home, UID, UID)
        yield Site(viewed.agent, viewed.tree, home)


@pytest.fixture(scope="session")
def server(site: Site) -> Iterator[Serving]:
    """A server at a socket."""
    with site.serving("--listen", f"unix:{site.home}/http.sock") as serving:
        yield serving


@pytest.fixture(scope="session")
def port(site: Site) -> Iterator[Serving]:
    """A server at a port."""
    with site.serving(
        "--listen", "127.0.0.1:0", "--token-file", f"{site.home}/token", "--name", "proxy.example"
    ) as serving:
        yield serving
