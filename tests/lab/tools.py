"""A layer with the tools of Debian that kinds manage, so that no test has to install them."""

from __future__ import annotations

from pathlib import Path

import image
from lab import Run

PACKAGES = "acl locales logrotate openssh-server postfix"
QUIET = "systemctl disable --quiet --now postfix ssh logrotate.timer; rm -rf /var/log/journal/* /var/lib/apt/lists/*"
"""Services that a test needs are started by it."""


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
