"""Kinds of damage that a host can suffer; the kinds themselves are in `damages_of_*.py`.

A damage is a function with the parameter `Site`; its docstring says what has happened to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from site_under_test import Site

SETTINGS, PROGRAM, UNIT = "/etc/guestbook.json", "/opt/guestbook/serve.py", "/etc/systemd/system/guestbook.service"
LARGE, LEAF, SMALL, LINK = "/srv/chaos/large", "/srv/chaos/deep/er/leaf", "/srv/small/file", "/srv/chaos/link"
FRONT = "/etc/nginx/sites-available/guestbook"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=60"
ACCOUNT, JOB = "user.present[visitor]", "cron.present[guestbook-backup]"
APP, NGINX, SLEEPER = "service.running[guestbook/service]", "service.running[nginx]", "service.running[sleeper]"


class Damage(NamedTuple):
    """One kind of damage."""

    do: Callable[[Site], object]
    repairs: tuple[str, ...]
    """Identities of the resources that must report a repair.

    Empty if the machine recovers by itself, or if the repair may have become unnecessary.
    """
    restarts: bool = False
    """Whether it ends the agent."""

    @property
    def name(self) -> str:
        """Return its name."""
        return self.do.__name__


def damage(*repairs: str, restarts: bool = False) -> Callable[[Callable[[Site], object]], Damage]:
    """Declare a function as a kind of damage."""
    return lambda do: Damage(do, repairs, restarts)


def kinds(*modules: ModuleType) -> Iterator[Damage]:
    """Return all kinds of damage in these modules, in order."""
    for module in modules:
        yield from (each for each in vars(module).values() if isinstance(each, Damage))


def managed(path: str) -> str:
    """Return the identity of the resource that manages a file."""
    return f"file.managed[{path}]"
