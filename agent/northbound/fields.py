"""Types of fields for networks and times. Values are stored, and kept in memory, in one canonical form.

    class Rule(Struct):
        source: Network
        ports: PortRange
        protocol: ProtocolNumber

Addresses and networks are texts, so that an index finds them by what an operator reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

OBJECTS = (str, IPv4Address, IPv6Address, IPv4Network, IPv6Network)
MAC = re.compile(r"[0-9a-f]{12}")
SEPARATORS = re.compile(r"(?<=[0-9a-f]{2})[:-](?=[0-9a-f]{2})|(?<=[0-9a-f]{4})\.(?=[0-9a-f]{4})")


def _mac(value: str) -> str:
    digits = SEPARATORS.sub("", value.lower())
    if not MAC.fullmatch(digits):
        raise ValueError
    return ":".join(digits[place : place + 2] for place in range(0, 12, 2))


def _range(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise ValueError("the first port of a range is greater than the last")
    return value


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _canonical(form: Callable[[str], object], kind: str) -> BeforeValidator:
    """Return the validator that turns a text, or an object of `ipaddress`, into its canonical text.

    The text of its error omits the value, which may be secret.
    """

    def validate(value: Any) -> str:
        if not isinstance(value, OBJECTS):
            raise ValueError(f"it is not {kind}")  # noqa: TRY004 - pydantic collects these
        try:
            return str(form(str(value)))
        except ValueError:
            raise ValueError(f"it is not {kind}") from None

    return BeforeValidator(validate)


IpAddress = Annotated[str, _canonical(ip_address, "an IPv4 or IPv6 address")]
"""An IPv4 or IPv6 address: `10.0.0.1`, `fe80::1`."""
Network = Annotated[str, _canonical(ip_network, "a network without bits of a host, for example 10.0.0.0/8")]
"""A network: `10.0.0.0/8`."""
MacAddress = Annotated[str, _canonical(_mac, "a MAC address, for example 52:54:00:12:34:56")]
"""A MAC address of 48 bits, in lower case with colons; other separators are accepted."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""A TCP or UDP port."""
PortRange = Annotated[tuple[Port, Port], AfterValidator(_range)]
"""The first and the last port of a range."""
ProtocolNumber = Annotated[int, Field(ge=0, le=255)]
"""The protocol of an IP packet: 6 is TCP."""
Timestamp = Annotated[AwareDatetime, AfterValidator(_utc)]
"""A point in time, in UTC; one without a time zone is refused. A number counts seconds since 1970."""
