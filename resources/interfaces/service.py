"""`service`: what runs in the background."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, not_applicable, supported
from holdfast.resources.interfaces.results import ChangeSet, ServiceStatus
from holdfast.resources.watches import idle


class ServiceInterface(Interface, name="service"):
    """Look at, start, stop and watch services.

    Names may be short (`nginx`). Functions that change something wait for the end of it (at most `timeout` seconds, None:
    as long as the platform lets it take) and raise `Permanent` with the service's last words when it failed. With `test` they
    change nothing and return what they would.
    """

    async def list(self) -> tuple[str, ...]:
        """Names of all services that are known, sorted."""
        return ()

    async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
        """What is known of these services, by the name asked for; one that does not exist says so."""
        return {}

    async def start(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Start it, and see that it has not ended at once. Option `no_block`: do not wait."""
        return ChangeSet()

    async def stop(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop it. Option `no_block`: do not wait."""
        return ChangeSet()

    async def restart(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Stop and start it, and see that it has not ended at once. Option `no_block`: do not wait."""
        return ChangeSet()

    @not_applicable(kernel=("Darwin",))
    async def enable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Have it started at boot."""
        return ChangeSet()

    @not_applicable(kernel=("Darwin",))
    async def disable(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Have it not started at boot."""
        return ChangeSet()

    @supported(kernel=("Linux", "FreeBSD", "NetBSD", "OpenBSD", "SunOS"))
    async def reload(
        self, name: str, timeout: float | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Have it read its configuration again; never a restart: a service that cannot is an error."""
        return ChangeSet()

    @supported(init=("systemd",))
    async def mask(self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Forbid that it is started at all; `runtime`: until the next boot."""
        return ChangeSet()

    @supported(init=("systemd",))
    async def unmask(
        self, name: str, runtime: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Allow it to be started."""
        return ChangeSet()

    def watch(self, names: Sequence[str]) -> Watch:
        """Says when the status of one of these may have changed; the reader looks for itself."""
        return idle()
