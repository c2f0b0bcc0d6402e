"""The kernel's process connector: reports each program that any process of the host begins to execute (netlink).

A filter in the kernel drops all other reports, so that forks and ends wake no thread. The reports exist in the first
network namespace only, and before Linux 6.6 they need CAP_NET_ADMIN.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct

CONNECTOR, GROUP = 11, 1
"""NETLINK_CONNECTOR; CN_IDX_PROC, also the value CN_VAL_PROC."""
LISTEN = 1
"""PROC_CN_MCAST_LISTEN."""
EXEC = 2
"""PROC_EVENT_EXEC."""
HEADER = struct.Struct("=IHHIIIIIIHH")
"""`struct nlmsghdr`, then `struct cn_msg` without its data."""
OPERATION = struct.Struct("=I")
EVENT = struct.Struct("=IIQii")
"""`struct proc_event`: kind, processor, time, thread, process."""
ATTACH_FILTER = 26
FILTER = struct.Struct("HBBI")
"""`struct sock_filter`: code, jump if true, jump if false, value."""
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
BUFFER = 4096
QUEUE = 1 << 18
"""Bytes of pending reports; more are lost."""


class Executions:
    """The reports of one socket. Raises `OSError` if the kernel does not allow it."""

    def __init__(self) -> None:
        flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, flags, CONNECTOR)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, QUEUE)
            self._filter()
            self._socket.bind((0, GROUP))
            size = HEADER.size + OPERATION.size
            head = HEADER.pack(size, 3, 0, 0, 0, GROUP, GROUP, 0, 0, OPERATION.size, 0)
            self._socket.send(head + OPERATION.pack(LISTEN))
        except OSError:
            self._socket.close()
            raise

    def _filter(self) -> None:
        """Make the kernel keep only reports of programs."""
        program = b"".join((
            FILTER.pack(LOAD, 0, 0, HEADER.size),
            FILTER.pack(EQUAL, 0, 1, socket.htonl(EXEC)),
            FILTER.pack(RETURN, 0, 0, 0xFFFF_FFFF),
            FILTER.pack(RETURN, 0, 0, 0),
        ))  # fmt: skip
        code = ctypes.create_string_buffer(program, len(program))
        value = struct.pack("HP", len(program) // FILTER.size, ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, value)

    def fileno(self) -> int:
        """Return the descriptor, for polling."""
        return self._socket.fileno()

    def read(self) -> int:
        """Return the next process that executes a program; 0 if there is none. Never waits."""
        while True:
            try:
                data = self._socket.recv(BUFFER)
            except BlockingIOError:
                return 0
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # reports were lost; the next ones follow
                    return 0
            else:
                return int(EVENT.unpack_from(data, HEADER.size)[4])

    def close(self) -> None:
        """Receive no more reports."""
        self._socket.close()
