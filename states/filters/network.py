"""Filters of addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.states.view.budget import check

HOST = 64
"""Maximum size in bytes of the text of an address."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv4Interface | ipaddress.IPv6Interface

PROPERTIES: dict[str, Callable[[Any], bool]] = {
    "global": lambda address: not address.is_private,
    "public": lambda address: not address.is_private,
    "private": lambda address: address.is_private,
    "loopback": lambda address: address.is_loopback,
    "lo": lambda address: address.is_loopback,
    "multicast": lambda address: address.is_multicast,
    "reserved": lambda address: address.is_reserved,
    "unspecified": lambda address: address.is_unspecified,
    **dict.fromkeys(("link_local", "linklocal", "ll"), lambda address: address.is_link_local),
    **dict.fromkeys(("site_local", "sl"), lambda address: getattr(address, "is_site_local", False)),
}
"""Word in `options` -> test of an address."""


def address(value: Any, version: int | None = None, options: str | None = None) -> str | None:
    """Return the text, if it is an address (or an interface) of this version that satisfies `options`; else None."""
    try:
        found: Address = ipaddress.ip_interface(value) if "/" in str(value) else ipaddress.ip_address(value)
    except ValueError:
        return None
    wanted = [word.strip().replace("-", "_") for word in options.split(",")] if options else []
    if version not in (None, found.version) or not all(
        PROPERTIES[word](found) for word in wanted if word in PROPERTIES
    ):
        return None
    return str(found)


def only(version: int | None) -> Callable[..., Any]:
    """Return the filter that keeps addresses of that version."""

    def keep(value: Any, options: str | None = None) -> Any:
        if not isinstance(value, (list, tuple)):
            return address(value, version, options)
        versions = (4, 6) if version is None else (version,)
        return [found for wanted in versions for item in value if (found := address(item, wanted, options))]

    return keep


def _each(work: Callable[[str], Any]) -> Callable[..., Any]:
    """Make a filter of addresses accept a list of them; None if nothing is left."""

    def run(value: Any, options: str | None = None, version: int | None = None) -> Any:
        found = only(version)(value, options)
        if not found:
            return None
        return [work(item) for item in found] if isinstance(value, (list, tuple)) else work(found)

    return run


def wrapped(value: Any) -> Any:
    """Return IPv6 addresses in brackets, any other text unchanged."""
    if isinstance(value, (list, tuple)):
        return [wrapped(item) for item in value]
    return f"[{value}]" if address(value, 6) else value


def within(values: Any, networks: Iterable[str] | None) -> Any:
    """Return the addresses that are in one of the networks; for a mapping of lists, of each list."""
    if networks is None:
        return values
    nets = [ipaddress.ip_network(network) for network in networks]

    def keep(items: Iterable[str]) -> list[str]:
        return [item for item in items for net in nets if ipaddress.ip_address(item) in net]

    return {key: keep(items) for key, items in values.items()} if isinstance(values, Mapping) else keep(values)


def hosts(text: str) -> list[str]:
    """Return the host addresses of a network."""
    network = ipaddress.ip_network(text, strict=False)
    check(network.num_addresses * HOST)
    return [str(host) for host in network.hosts()]


FILTERS: dict[str, Any] = {
    "is_ip": lambda value, options=None: address(value, None, options) is not None,
    "is_ipv4": lambda value, options=None: address(value, 4, options) is not None,
    "is_ipv6": lambda value, options=None: address(value, 6, options) is not None,
    "ipaddr": only(None),
    "ipv4": only(4),
    "ipv6": only(6),
    "ipwrap": wrapped,
    "ip_host": _each(lambda text: str(ipaddress.ip_interface(text))),
    "network_hosts": _each(hosts),
    "network_size": _each(lambda text: ipaddress.ip_network(text, strict=False).num_addresses),
    "filter_by_networks": within,
}
"""Name in templates -> function."""
