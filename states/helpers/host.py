"""Functions on this host: users and groups, addresses, and the agent's environment."""

# ruff: noqa: ARG001, ARG005 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import grp
import ipaddress
import os
import pwd
import socket
from typing import Any

from holdfast.states.filters.files import which
from holdfast.states.helpers.table import looking, plain
from holdfast.states.view.host_view import HostView


@looking("environ.get")
def environ_get(view: HostView, key: str, default: str = "") -> str:
    """Return a variable of the agent's environment."""
    return os.environ.get(key, default)


@looking("environ.has_value")
def environ_has_value(view: HostView, key: str, value: str | None = None) -> bool:
    """Return whether the agent's environment has a variable, with that value if one is given."""
    return key in os.environ and value in (None, os.environ[key])


def _described(entry: pwd.struct_passwd) -> dict[str, Any]:
    """Return a user, with Salt's keys."""
    gecos = [*entry.pw_gecos.split(",", 4), "", "", "", "", ""][:5]
    words = dict(zip(("fullname", "roomnumber", "workphone", "homephone", "other"), gecos, strict=True))
    return {
        "gid": entry.pw_gid,
        "groups": groups_of(entry),
        "home": entry.pw_dir,
        "name": entry.pw_name,
        "passwd": entry.pw_passwd,
        "shell": entry.pw_shell,
        "uid": entry.pw_uid,
        **words,
    }


def groups_of(entry: pwd.struct_passwd) -> list[str]:
    """Return the names of all groups of a user, sorted."""
    names = {group.gr_name for group in grp.getgrall() if entry.pw_name in group.gr_mem or group.gr_gid == entry.pw_gid}
    return sorted(names)


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(str(name))
    except KeyError:
        return None


@looking("user.info")
def user_info(view: HostView, name: str) -> dict[str, Any]:
    """Return a user; empty if there is no such user."""
    entry = _user(name)
    return {} if entry is None else _described(entry)


looking("user.list_users")(lambda view: sorted(entry.pw_name for entry in pwd.getpwall()))
looking("user.getent")(lambda view, refresh=False: [_described(entry) for entry in pwd.getpwall()])
looking("user.list_groups")(lambda view, name: [] if (entry := _user(name)) is None else groups_of(entry))
looking("user.get_uid")(lambda view, name: "" if (entry := _user(name)) is None else entry.pw_uid)


@looking("user.primary_group")
def primary_group(view: HostView, name: str) -> str:
    """Return the name of a user's own group; empty when there is no such user."""
    entry = _user(name)
    return "" if entry is None else grp.getgrgid(entry.pw_gid).gr_name


def _members(entry: grp.struct_group) -> dict[str, Any]:
    return {"name": entry.gr_name, "passwd": entry.gr_passwd, "gid": entry.gr_gid, "members": list(entry.gr_mem)}


@looking("group.info")
def group_info(view: HostView, name: str) -> dict[str, Any]:
    """Return a group; empty when there is no such group."""
    try:
        return _members(grp.getgrnam(str(name)))
    except KeyError:
        return {}


looking("group.getent")(lambda view, refresh=False: [_members(entry) for entry in grp.getgrall()])


def _addresses(view: HostView, version: int, interface: str | None, cidr: str | None) -> list[str]:
    """Return the host's addresses, as in its grains, without loopback addresses."""
    by_interface = view.grains.get(f"ip{version}_interfaces") or {}
    given = by_interface.get(interface, []) if interface else view.grains.get(f"ipv{version}") or []
    found = [
        address for text in given if not (address := ipaddress.ip_address(str(text).partition("%")[0])).is_loopback
    ]
    network = ipaddress.ip_network(cidr) if cidr else None
    return [str(address) for address in sorted(found, key=int) if network is None or address in network]


def ip_addrs(
    view: HostView,
    interface: str | None = None,
    include_loopback: bool = False,
    cidr: str | None = None,
    type: str | None = None,
) -> list[str]:
    """Return the IPv4 addresses of the host, or of one interface, in a network."""
    found = _addresses(view, 4, interface, cidr)
    private = {"private": True, "public": False}.get(type or "")
    found = [text for text in found if private is None or ipaddress.ip_address(text).is_private == private]
    return ["127.0.0.1", *found] if include_loopback else found


def ip_addrs6(
    view: HostView, interface: str | None = None, include_loopback: bool = False, cidr: str | None = None
) -> list[str]:
    """Return the IPv6 addresses of the host, or of one interface, in a network."""
    return [*(["::1"] if include_loopback else []), *_addresses(view, 6, interface, cidr)]


@looking("network.interface_ip")
def interface_ip(view: HostView, iface: str) -> str:
    """Return the first IPv4 address of an interface; empty without one."""
    return next(iter((view.grains.get("ip4_interfaces") or {}).get(iface, [])), "")


@looking("network.in_subnet")
def in_subnet(view: HostView, cidr: str, addr: str | list[str] | tuple[str, ...] | None = None) -> bool:
    """Return whether the host (or that address) is in a network."""
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError:  # as in Salt
        return False
    given = [*ip_addrs(view), *ip_addrs6(view)] if addr is None else addr if isinstance(addr, (list, tuple)) else [addr]
    return any(ipaddress.ip_address(text) in network for text in given)


def convert_cidr(cidr: str) -> dict[str, Any]:
    """Return the network, netmask and broadcast address of a network; each None if the network is invalid."""
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return {"network": None, "netmask": None, "broadcast": None}
    return {
        "network": str(network.network_address),
        "netmask": str(network.netmask),
        "broadcast": str(network.broadcast_address),
    }


for _name, _call in (("ip_addrs", ip_addrs), ("ipaddrs", ip_addrs), ("ip_addrs6", ip_addrs6), ("ipaddrs6", ip_addrs6)):
    looking(f"network.{_name}")(_call)
looking("network.get_hostname", "network.get_fqdn")(lambda view: socket.gethostname())
plain(
    network__is_loopback=lambda text: ipaddress.ip_address(text).is_loopback,
    network__is_private=lambda text: ipaddress.ip_address(text).is_private,
    network__calc_net=lambda text, netmask=None: str(
        ipaddress.ip_network(f"{text}/{netmask}" if netmask else text, strict=False)
    ),
    network__convert_cidr=convert_cidr,
)


looking("cmd.which")(lambda view, cmd: which(cmd))
looking("cmd.has_exec")(lambda view, cmd: which(cmd) is not None)
