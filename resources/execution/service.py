"""Salt's `service` functions."""

from __future__ import annotations

from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.execution.table import ExecutionHost, execution
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.interfaces.service import ServiceInterface


def _options(no_block: bool) -> dict[str, Any] | None:
    return {"no_block": True} if no_block else None


@execution("service.start", ServiceInterface, "start")
async def start(host: ExecutionHost, name: str, no_block: bool = False) -> ChangeSet:
    """Start a service."""
    return await host.interface(ServiceInterface).start(name, options=_options(no_block))


@execution("service.stop", ServiceInterface, "stop")
async def stop(host: ExecutionHost, name: str, no_block: bool = False) -> ChangeSet:
    """Stop a service."""
    return await host.interface(ServiceInterface).stop(name, options=_options(no_block))


@execution("service.restart", ServiceInterface, "restart")
async def restart(host: ExecutionHost, name: str, no_block: bool = False) -> ChangeSet:
    """Restart a service."""
    return await host.interface(ServiceInterface).restart(name, options=_options(no_block))


execution("service.full_restart", ServiceInterface, "restart")(restart)


@execution("service.reload", ServiceInterface, "reload")
async def reload(host: ExecutionHost, name: str, no_block: bool = False) -> ChangeSet:
    """Reload the configuration of a service; fails if the service cannot reload."""
    return await host.interface(ServiceInterface).reload(name, options=_options(no_block))


@execution("service.force_reload", ServiceInterface, "status", "reload", "restart")
async def force_reload(host: ExecutionHost, name: str, no_block: bool = False) -> ChangeSet:
    """Reload a service, or restart it if it cannot reload."""
    service = host.interface(ServiceInterface)
    status = (await service.status([name]))[name]
    call = service.reload if status.active and status.extra.get("can_reload", True) else service.restart
    return await call(name, options=_options(no_block))


@execution("service.enable", ServiceInterface, "enable")
async def enable(host: ExecutionHost, name: str) -> ChangeSet:
    """Enable the start at boot."""
    return await host.interface(ServiceInterface).enable(name)


@execution("service.disable", ServiceInterface, "disable")
async def disable(host: ExecutionHost, name: str) -> ChangeSet:
    """Disable the start at boot."""
    return await host.interface(ServiceInterface).disable(name)


@execution("service.mask", ServiceInterface, "mask")
async def mask(host: ExecutionHost, name: str, runtime: bool = False) -> ChangeSet:
    """Forbid any start of a service."""
    return await host.interface(ServiceInterface).mask(name, runtime)


@execution("service.unmask", ServiceInterface, "unmask")
async def unmask(host: ExecutionHost, name: str, runtime: bool = False) -> ChangeSet:
    """Allow the start of a service."""
    return await host.interface(ServiceInterface).unmask(name, runtime)


@execution("service.systemctl_reload")
async def systemctl_reload(host: ExecutionHost) -> bool:
    """Let systemd read its unit files again. The states of services do so by themselves."""
    if host.facts.get("init") != "systemd":
        raise Permanent(f"cannot reload unit files: the init system is {host.facts.get('init') or 'unknown'}")
    await host.run("systemctl", "daemon-reload", timeout=90.0)
    return True


# -- functions that only query -------------------------------------------------------------------------------------


async def _is(host: ExecutionHost, name: str, field: str) -> bool:
    """Return whether a field of the status is true."""
    return bool(getattr((await host.interface(ServiceInterface).status([name]))[name], field))


@execution("service.status", ServiceInterface, "status", looks=True)
async def status(host: ExecutionHost, name: str) -> bool:
    """Return whether a service runs."""
    return await _is(host, name, "active")


@execution("service.available", ServiceInterface, "status", looks=True)
async def available(host: ExecutionHost, name: str) -> bool:
    """Return whether there is such a service."""
    return await _is(host, name, "exists")


@execution("service.missing", ServiceInterface, "status", looks=True)
async def missing(host: ExecutionHost, name: str) -> bool:
    """Return whether there is no such service."""
    return not await _is(host, name, "exists")


@execution("service.enabled", ServiceInterface, "status", looks=True)
async def enabled(host: ExecutionHost, name: str) -> bool:
    """Return whether a service starts at boot; true also if it can be neither enabled nor disabled, as in Salt."""
    found = (await host.interface(ServiceInterface).status([name]))[name]
    return found.exists and not found.masked and found.enabled is not False


@execution("service.disabled", ServiceInterface, "status", looks=True)
async def disabled(host: ExecutionHost, name: str) -> bool:
    """Return the opposite of `service.enabled`; true also if there is no such service."""
    return not await enabled(host, name)


@execution("service.masked", ServiceInterface, "status", looks=True)
async def masked(host: ExecutionHost, name: str) -> bool:
    """Return whether any start of a service is forbidden."""
    return await _is(host, name, "masked")


@execution("service.get_all", ServiceInterface, "list", looks=True)
async def get_all(host: ExecutionHost) -> list[str]:
    """Return the names of all services."""
    return list(await host.interface(ServiceInterface).list())


async def _where(host: ExecutionHost, field: str, *, wanted: bool) -> list[str]:
    """Return the names of the services with this value of a field, without aliases."""
    service = host.interface(ServiceInterface)
    found = await service.status(await service.list())
    units = {name: status.extra.get("unit") for name, status in found.items()}
    own = {name for name, unit in units.items() if unit in (None, name, f"{name}.service")}
    return sorted(name for name in own if getattr(found[name], field) is wanted)


@execution("service.get_enabled", ServiceInterface, "list", "status", looks=True)
async def get_enabled(host: ExecutionHost) -> list[str]:
    """Return the names of the services that start at boot."""
    return await _where(host, "enabled", wanted=True)


@execution("service.get_disabled", ServiceInterface, "list", "status", looks=True)
async def get_disabled(host: ExecutionHost) -> list[str]:
    """Return the names of the services that do not start at boot."""
    return await _where(host, "enabled", wanted=False)


@execution("service.get_running", ServiceInterface, "list", "status", looks=True)
async def get_running(host: ExecutionHost) -> list[str]:
    """Return the names of the services that run."""
    return await _where(host, "active", wanted=True)
