"""Notifies systemd: ready, reloading, stopping, status, and the watchdog.

The event loop itself feeds the watchdog, so that a hanging loop misses it. Without NOTIFY_SOCKET this module does
nothing.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Mapping

from holdfast.resources.visible import escaped


class Notifier:
    """The connection to systemd. Messages are best effort: a missing systemd is not an error of the agent."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._socket: socket.socket | None = None
        if path:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._interval = _watchdog_interval(environment)
        self._timer: asyncio.TimerHandle | None = None
        self._status = ""

    def ready(self) -> None:
        """Report that the agent is up, or up again after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Report the start of a reload; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the agent is stopping."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the line for `systemctl status`; sent only if it is new."""
        if text != self._status:
            self._status = text
            self._send("STATUS=" + escaped(text.replace("\n", " ")))

    def start_watchdog(self) -> None:
        """Feed the watchdog from the running loop, twice in each period that systemd allows."""
        if self._interval is not None and self._socket is not None:
            self._send("WATCHDOG=1")
            self._timer = asyncio.get_running_loop().call_later(self._interval, self.start_watchdog)

    def close(self) -> None:
        """Stop feeding and close the socket."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            return  # no listener, or its queue is full: the next message may get through


def _watchdog_interval(environment: Mapping[str, str]) -> float | None:
    """Return the seconds between two keep-alive messages: half of systemd's limit.

    None if systemd expects no such messages.
    """
    allowed = environment.get("WATCHDOG_USEC", "")
    if not allowed.isdigit() or int(allowed) == 0:
        return None
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(allowed) / 2e6
