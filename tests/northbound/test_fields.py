"""Types of fields: what is accepted, and the one form in which it is held and stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.northbound.errors import Invalid
from holdfast.agent.northbound.fields import (
    IpAddress,
    MacAddress,
    Network,
    Port,
    PortRange,
    ProtocolNumber,
    Timestamp,
)
from holdfast.agent.northbound.model import Model


class Flow(Model, table="test-flows"):
    """A field of each type."""

    indexes = {"ip": "ip", "ports": "ports"}
    ip: IpAddress | None = None
    network: Network | None = None
    mac: MacAddress | None = None
    port: Port | None = None
    ports: PortRange | None = None
    protocol: ProtocolNumber | None = None
    at: Timestamp | None = None


@pytest.mark.parametrize(
    ("field", "given", "held"),
    [
        ("ip", "10.0.0.1", "10.0.0.1"),
        ("ip", "FE80:0::1", "fe80::1"),
        ("ip", ip_address("::1"), "::1"),
        ("network", "10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("network", ip_network("FD00::/8"), "fd00::/8"),
        ("mac", "52-54-00-AB-CD-EF", "52:54:00:ab:cd:ef"),
        ("mac", "5254.00ab.cdef", "52:54:00:ab:cd:ef"),
        ("mac", "525400ABCDEF", "52:54:00:ab:cd:ef"),
        ("port", 0, 0),
        ("port", 65535, 65535),
        ("ports", [80, 80], (80, 80)),
        ("protocol", 255, 255),
        ("at", "2026-11-23T13:00:00+01:00", datetime(2026, 11, 23, 12, tzinfo=UTC)),
        ("at", 0, datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_value_has_one_form(field: str, given: Any, held: Any) -> None:
    """In the record, and after it was stored."""
    record = Flow(id="a", **{field: given})
    assert getattr(record, field) == held
    assert Flow.decode(record.encode()) == record


@pytest.mark.parametrize(
    ("field", "given", "error"),
    [
        ("ip", "10.0.0.256", "it is not an IPv4 or IPv6 address$"),
        ("ip", 5, "it is not an IPv4 or IPv6 address"),
        ("ip", b"\x7f\0\0\x01", "it is not an IPv4 or IPv6 address"),
        ("network", "10.0.0.1/8", "it is not a network without bits of a host, for example 10.0.0.0/8$"),
        ("mac", "52:54:00:12:34", "it is not a MAC address, for example 52:54:00:12:34:56"),
        ("mac", "5:25400:12:34:56", "it is not a MAC address"),
        ("port", 65536, "less than or equal to 65535"),
        ("port", -1, "greater than or equal to 0"),
        ("ports", [81, 80], "the first port of a range is greater than the last"),
        ("ports", [80], "Field required"),
        ("protocol", 256, "less than or equal to 255"),
        ("at", "2026-11-23T13:00:00", "should have timezone info"),
    ],
)
def test_a_value_of_another_kind_is_refused(field: str, given: Any, error: str) -> None:
    """The error names the field."""
    with pytest.raises(Invalid, match=f"cannot build Flow: {field}.*{error}"):
        Flow(id="a", **{field: given})


def test_a_port_range_is_stored_as_its_two_ends() -> None:
    """An index has a key for each of the two."""
    record = Flow(id="a", ports=(80, 90))
    assert json.loads(record.encode())["ports"] == [80, 90]
    assert set(Flow.index("ports").keys(record)) == {(80,), (90,)}


def test_one_moment_has_one_form() -> None:
    """Whatever its time zone."""
    here = datetime(2026, 11, 23, 13, tzinfo=timezone(timedelta(hours=1)))
    assert Flow(id="a", at=here).encode() == Flow(id="a", at=here.astimezone(UTC)).encode()


@given(address=st.ip_addresses(), mac=st.binary(min_size=6, max_size=6), moment=st.datetimes(timezones=st.just(UTC)))
def test_what_is_canonical_stays_as_it_is(address: Any, mac: bytes, moment: datetime) -> None:
    """Reading the form again gives the form."""
    record = Flow(id="a", ip=address, mac=mac.hex(), at=moment)
    again = Flow(id="a", ip=record.ip, mac=record.mac, at=record.at)
    assert again == record == Flow.decode(record.encode())
    assert Flow.index("ip").query({"ip": address}) == Flow.index("ip").query({"ip": record.ip})
