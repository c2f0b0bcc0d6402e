"""Hosts with an init other than systemd: a layer with its packages for each, and a quick and safe boot.

The scripts of the early boot are left out: a host does not need them, and some would affect the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import image
from lab import BOOTED, Run

INITTAB = f"""id:2:initdefault:
l2:2:wait:%s
ok:2:once:/usr/bin/touch {BOOTED}
"""


class Init(NamedTuple):
    """An init of the lab."""

    packages: str
    program: str
    files: Mapping[str, str]
    """Files by path; those that begin with `#!` are programs."""
    setup: str = ""
    """Commands after the installation."""


INITS: Mapping[str, Init] = {
    "sysv": Init("sysvinit-core sysv-rc", "/sbin/init", {"/etc/inittab": INITTAB % "/etc/init.d/rc 2"}),
    "openrc": Init(
        "sysvinit-core openrc", "/sbin/init",
        {"/etc/inittab": INITTAB % "/sbin/openrc default", "/etc/rc.conf": 'rc_sys="lxc"\n'},
        "rm -f /etc/runlevels/*/*",
    ),
    "runit": Init(
        "runit", "/sbin/runit",
        {
            "/etc/runit/1": "#!/bin/sh\n",
            "/etc/runit/2": f"#!/bin/sh\ntouch {BOOTED}\nexec runsvdir -P /etc/service\n",
            "/etc/runit/3": "#!/bin/sh\n",
        },
    ),
}  # fmt: skip


def layer(run: Run, name: str) -> Path:
    """Return the layer of an init; create it if necessary."""
    return image.cached(f"init-{name}", (image.root().name, INITS[name]), lambda path: install(run, name, path))


def install(run: Run, name: str, path: Path) -> None:
    """Install the packages of an init in a host with systemd, and keep its disk."""
    init = INITS[name]
    host = run.host(f"init-{name}")
    host.sh(
        f"export DEBIAN_FRONTEND=noninteractive; apt-get -qq --allow-remove-essential install {init.packages}",
        timeout=120,
    )
    for file, text in init.files.items():
        host.write(file, text, 0o755 if text.startswith("#!") else 0o644)
    host.sh(f"rm -rf /etc/rc2.d/[SK]* /var/log/journal/*; {init.setup}")
    host.save(path, "/")
    host.down()
