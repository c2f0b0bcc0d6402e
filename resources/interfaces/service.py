"""`service`: background services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, not_applicable, supported
from holdfast.resources.interfaces.results import ChangeSet, ServiceStatus
from holdfast.resources.watches import idle


class ServiceInterface(Interface, name="service"):
    """Query, start, stop and watch services.

    Names may be short (`nginx`). Functions that change something wait until the change is complete (at most `timeout`
    seconds, None: as long as the platform allows). They raise `Permanent` with the last output of the service if the
    change fails. With `test` they change nothing and return what they would change.
    """

    thing: ClassVar[str] = "unit"

    async def list(self) -> tuple[str, ...]:
        """Return the names of all known services, sorted."""
        return ()

    async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
        """Return the status of these services, by the given name, also of services that do not exist."""
        return {}

    async def start(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Start a service, and check that it does not end at once. Option `no_block`: do not wait."""
        return ChangeSet()

    async def stop(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop a service. Option `no_block`: do not wait."""
        return ChangeSet()

    async def restart(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop and start a service, and check that it does not end at once. Option `no_block`: do not wait."""
        return ChangeSet()

    @not_applicable(kernel=("Darwin",))
    async def enable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Enable the start at boot."""
        return ChangeSet()

    @not_applicable(kernel=("Darwin",))
    async def disable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Disable the start at boot."""
        return ChangeSet()

    @supported(kernel=("Linux", "FreeBSD", "NetBSD", "OpenBSD", "SunOS"))
    async def reload(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Reload the configuration of a service; never restarts it. Raises `Permanent` if the service cannot reload."""
        return ChangeSet()

    @supported(init=("systemd",))
    async def mask(self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Forbid any start of a service; `runtime`: until the next boot."""
        return ChangeSet()

    @supported(init=("systemd",))
    async def unmask(
        self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Allow the start of a service."""
        return ChangeSet()

    def watch(self, names: Sequence[str]) -> Watch:
        """Watch the status of these services. An event says only that a status may have changed."""
        return idle()
