"""The hosts on which `test_user.py` and `test_group.py` run: one class for each set of tools for accounts.

To add one, derive a class from `AccountSite`, and put it into `sites.py`.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import busybox
import lab
from driver import Driver

FILES = "/etc/passwd /etc/shadow /etc/group /etc/gshadow"


class AccountSite:
    """A host with one set of tools; a context manager that runs the providers there."""

    tool: ClassVar[str]
    setter: ClassVar[str]
    """Path of the program that sets passwords."""
    cannot: ClassVar[frozenset[str]] = frozenset()
    """What the tools cannot change: fields of an account, `name`, and `number` of a group."""
    lacks: ClassVar[frozenset[str]] = frozenset()
    """Functions of the interfaces that the tools do not have."""

    def __init__(self, host: lab.Host) -> None:
        self.host = host

    @classmethod
    def missing(cls) -> str:
        """Return why the site cannot be built on this machine; empty if it can."""
        return ""

    @classmethod
    def layers(cls, run: lab.Run) -> tuple[Path, ...]:
        """Return layers with the tools, the top one first; create them if necessary."""
        return ()

    def __enter__(self) -> Self:
        """Start the driver in the host, and keep the host's accounts for `reset`."""
        self.host.sh(
            f"mkdir /root/first; cp -a {FILES} {self.setter} /etc/skel /root/first; ls -A /srv >/root/first/srv"
        )
        self.driver = Driver(self.host).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the driver."""
        self.driver.__exit__(kind, error, trace)

    def reset(self) -> None:
        """Restore the accounts, their homes and processes of the fresh host."""
        self.host.sh(f"""
            pkill -KILL -U 1000-60000 || true
            cp -a /root/first/{{passwd,shadow,group,gshadow,skel}} /etc
            cp -a --remove-destination /root/first/{Path(self.setter).name} {self.setter}
            rm -rf /home/* /root/arguments /etc/skel/.mark {self.setter}.real
            ls -A /srv | grep -vxF -f /root/first/srv | sed s:^:/srv/: | xargs -r rm -rf
        """)
        self.driver.log.clear()

    # -- by hand, without Holdfast -----------------------------------------------------------------------------------

    def line(self, file: str, name: str) -> str:
        """Return the line of an account or a group in a file of /etc; empty if there is none."""
        lines = self.host.read(f"/etc/{file}").splitlines()
        return next((line for line in lines if line.startswith(f"{name}:")), "")

    def files(self) -> str:
        """Return the account files byte for byte, with their attributes, and the names of the homes."""
        return self.host.sh(f"cat {FILES}; stat -c '%n %a %u:%g %Y %i' {FILES}; ls /etc /home /srv")

    def record_arguments(self) -> None:
        """Write the arguments of each call of the tool that sets passwords to `/root/arguments`, from now on."""
        script = f'#!/bin/sh\necho "$@" >>/root/arguments\nexec {self.setter}.real "$@"\n'
        self.host.run("mv", self.setter, f"{self.setter}.real")
        self.host.write(self.setter, script, mode=0o755)


class ShadowSite(AccountSite):
    """A Debian host."""

    tool = "shadow"
    setter = "/usr/sbin/chpasswd"


class BusyboxSite(AccountSite):
    """A host with busybox applets instead of the shadow tools."""

    tool = "busybox"
    setter = "/usr/bin/busybox"
    cannot = frozenset({"uid", "gid", "home", "shell", "fullname", "workphone", "name", "number"})
    lacks = frozenset({"set_expiry"})

    def __init__(self, host: lab.Host) -> None:
        super().__init__(host)
        host.sh(busybox.INSTALL)

    @classmethod
    def missing(cls) -> str:
        """Return why busybox cannot be built."""
        return busybox.missing()

    @classmethod
    def layers(cls, run: lab.Run) -> tuple[Path, ...]:
        """Return the layer with busybox."""
        return (busybox.layer(),)
