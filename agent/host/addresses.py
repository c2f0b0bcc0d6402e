"""Addresses of the network interfaces from rtnetlink(7), as getifaddrs(3) returns them.

An import of psutil for this purpose would take a tenth of the time of a short run.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

_LINKS, _ADDRESSES = 18, 22
"""RTM_GETLINK, RTM_GETADDR."""
_REQUEST = 0x1 | 0x300
"""NLM_F_REQUEST, NLM_F_DUMP."""
_ERROR, _DONE = 2, 3
"""NLMSG_ERROR, NLMSG_DONE."""
_HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_LINK = struct.Struct("=BxHiII")
"""ifinfomsg: family, type, index, flags, change."""
_ADDRESS = struct.Struct("=BBBBI")
"""ifaddrmsg: family, prefix, flags, scope, index."""
_ATTRIBUTE = struct.Struct("=HH")
"""rtattr: length, type."""
_HARDWARE, _NAME = 1, 3
"""IFLA_ADDRESS, IFLA_IFNAME."""
_PEER, _LOCAL, _LABEL = 1, 2, 3
"""IFA_ADDRESS, IFA_LOCAL, IFA_LABEL."""
_CHUNK = 1 << 16


def addresses() -> Iterator[tuple[str, int, str]]:
    """Yield (interface name, family, address): first all hardware addresses (AF_PACKET), then all IP addresses.

    An IPv4 address with a label (`eth0:1`) has the label as its name, as in getifaddrs(3). Raises `OSError`.
    """
    names = {}
    for body in _dump(_LINKS):
        index, attributes = _LINK.unpack_from(body)[2], _attributes(body[_LINK.size :])
        names[index] = _text(attributes[_NAME])
        if hardware := attributes.get(_HARDWARE):
            yield names[index], socket.AF_PACKET, hardware.hex(":")
    for body in _dump(_ADDRESSES):
        (family, *_, index), attributes = _ADDRESS.unpack_from(body), _attributes(body[_ADDRESS.size :])
        address = attributes.get(_LOCAL, attributes.get(_PEER))
        if address is not None and index in names and family in (socket.AF_INET, socket.AF_INET6):
            name = _text(attributes[_LABEL]) if _LABEL in attributes else names[index]
            yield name, family, socket.inet_ntop(family, address)


def _dump(what: int) -> Iterator[bytes]:
    """Request all entries of one type; yield the bodies of the answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as connection:
        connection.sendto(_HEADER.pack(_HEADER.size + _LINK.size, what, _REQUEST, 1, 0) + bytes(_LINK.size), (0, 0))
        while True:
            data = connection.recv(_CHUNK)
            while data:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -struct.unpack_from("=i", data, _HEADER.size)[0]
                    raise OSError(
                        code or errno.EPROTO, f"cannot list network addresses: {os.strerror(code or errno.EPROTO)}"
                    )
                yield data[_HEADER.size : length]
                data = data[_aligned(length) :]


def _attributes(data: bytes) -> dict[int, bytes]:
    """Parse attributes: type -> value."""
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _text(value: bytes) -> str:
    return os.fsdecode(value.rstrip(b"\0"))
