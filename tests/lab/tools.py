"""Hosts with the tools of Debian that kinds manage, in a layer, so that no test has to install them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import image
from lab import Host, Run

PACKAGES = "acl git locales logrotate openssh-server postfix"
QUIET = "systemctl disable --quiet --now postfix ssh logrotate.timer; rm -rf /var/log/journal/* /var/lib/apt/lists/*"
"""Stops the services of the packages; a test starts those that it needs."""


def layer(run: Run) -> Path:
    """Return the layer; create it if necessary."""
    return image.cached("tools", (image.root().name, PACKAGES, QUIET), lambda path: install(run, path))


def install(run: Run, path: Path) -> None:
    """Install the packages in a host, and keep its disk."""
    host = run.host("tools")
    host.sh(
        f"DEBIAN_FRONTEND=noninteractive apt-get -qq install -y {PACKAGES} >/dev/null 2>&1; {QUIET} 2>/dev/null",
        timeout=120,
    )
    host.save(path, "/")
    host.down()


@contextmanager
def equipped(run: Run, layers: tuple[Path, ...], prepare: str) -> Iterator[Host]:
    """Yield a host with the tools, on which a script has run."""
    host = run.host("equipped", layers=(layer(run), *layers))
    try:
        host.sh(prepare)
        yield host
    finally:
        host.down()
