"""Salt's `shadow` functions: passwords, and the ageing of accounts and passwords."""

from __future__ import annotations

from holdfast.resources.execution.table import ExecutionHost, execution
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.interfaces.user import UserInterface


@execution("shadow.set_password", UserInterface, "set_password")
async def set_password(host: ExecutionHost, name: str, password: str) -> ChangeSet:
    """Set the hash of a password, which is never shown."""
    return await host.interface(UserInterface).set_password(name, password)


@execution("shadow.del_password", UserInterface, "set_password")
async def del_password(host: ExecutionHost, name: str) -> ChangeSet:
    """Remove a password, so that login needs none."""
    return await host.interface(UserInterface).set_password(name, "")


@execution("shadow.lock_password", UserInterface, "set_lock")
async def lock_password(host: ExecutionHost, name: str) -> ChangeSet:
    """Lock a password, so that no login with it succeeds."""
    return await host.interface(UserInterface).set_lock(name, value=True)


@execution("shadow.unlock_password", UserInterface, "set_lock")
async def unlock_password(host: ExecutionHost, name: str) -> ChangeSet:
    """Unlock a password."""
    return await host.interface(UserInterface).set_lock(name, value=False)


async def _age(host: ExecutionHost, name: str, **days: int) -> ChangeSet:
    return await host.interface(UserInterface).set_expiry(name, days)


@execution("shadow.set_expire", UserInterface, "set_expiry")
async def set_expire(host: ExecutionHost, name: str, expire: int) -> ChangeSet:
    """Set the day on which an account expires, in days since 1970; -1: never."""
    return await _age(host, name, expire=expire)


@execution("shadow.set_date", UserInterface, "set_expiry")
async def set_date(host: ExecutionHost, name: str, date: int) -> ChangeSet:
    """Set the day of the last change of the password, in days since 1970."""
    return await _age(host, name, date=date)


@execution("shadow.set_mindays", UserInterface, "set_expiry")
async def set_mindays(host: ExecutionHost, name: str, mindays: int) -> ChangeSet:
    """Set the least number of days between two changes of the password."""
    return await _age(host, name, mindays=mindays)


@execution("shadow.set_maxdays", UserInterface, "set_expiry")
async def set_maxdays(host: ExecutionHost, name: str, maxdays: int) -> ChangeSet:
    """Set the number of days after which the password must be changed."""
    return await _age(host, name, maxdays=maxdays)


@execution("shadow.set_inactdays", UserInterface, "set_expiry")
async def set_inactdays(host: ExecutionHost, name: str, inactdays: int) -> ChangeSet:
    """Set the number of days for which an expired password can still be changed."""
    return await _age(host, name, inactdays=inactdays)


@execution("shadow.set_warndays", UserInterface, "set_expiry")
async def set_warndays(host: ExecutionHost, name: str, warndays: int) -> ChangeSet:
    """Set the number of days for which users are warned before the password expires."""
    return await _age(host, name, warndays=warndays)
