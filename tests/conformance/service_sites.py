"""The hosts on which `test_service.py` runs: one for each tool, with a daemon for tests and a service of the tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import inits
import installed
import lab
from driver import Driver

DAEMON = "/usr/local/bin/toyd"
PROGRAM = """#!/bin/bash
case $1 in
  dies) sleep 0.05; echo out of luck; exit 3 ;;
  hangs) trap '' TERM ;;
  deaf) exec sleep 1000 ;;
esac
trap 'echo >>/run/reloads' HUP
while :; do sleep 1000 & wait $!; done
"""
"""Runs until it is ended; `dies` ends at once, `hangs` ignores SIGTERM, `deaf` is ended by SIGHUP."""

UNIT = """[Service]
ExecStart={daemon} {mode}
{reload}
[Install]
WantedBy=multi-user.target
"""
OPENRC = """#!/sbin/openrc-run
command=/bin/bash
command_args="{daemon} {mode}"
command_background=yes
pidfile=/run/{name}.pid
start_stop_daemon_args='--output /run/{name}.log'
retry=TERM/60
{reload}
"""
SYSV = """#!/bin/sh
### BEGIN INIT INFO
# Provides: {name}
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
. /lib/lsb/init-functions
NAME={name}
PIDFILE=/run/$NAME.pid
case "$1" in
  start)
    pidofproc -p "$PIDFILE" {daemon} >/dev/null && exit 0
    {daemon} {mode} &
    echo $! >"$PIDFILE"
    ;;
  stop)
    start-stop-daemon --stop --oknodo --quiet --retry TERM/60 --pidfile "$PIDFILE" || exit 1
    rm -f "$PIDFILE"
    ;;
  restart)
    "$0" stop && "$0" start
    ;;
  status)
    status_of_proc -p "$PIDFILE" {daemon} {name}
    ;;
{reload}
  *)
    echo "Usage: $0 start|stop|restart|status" >&2
    exit 2
    ;;
esac
"""
RUN = "#!/bin/sh\nexec 2>&1\nexec {daemon} {mode}\n"
LOG = "#!/bin/sh\nmkdir -p main\nexec svlogd main\n"

TOOLS = ("systemd", "openrc", "runit", "sysv")
FILES: Mapping[str, Mapping[str, str]] = {
    "systemd": {"/usr/lib/systemd/system/{name}.service": UNIT},
    "openrc": {"/etc/init.d/{name}": OPENRC},
    "sysv": {"/etc/init.d/{name}": SYSV},
    "runit": {"/etc/sv/{name}/run": RUN, "/etc/sv/{name}/log/run": LOG},
}
"""Tool -> the files of a service, by path."""
RELOAD: Mapping[str, str] = {
    "systemd": "ExecReload=/bin/kill -HUP $MAINPID",
    "openrc": 'extra_started_commands=reload\nreload() { kill -HUP "$(cat "$pidfile")"; }',
    "sysv": '  reload)\n    kill -HUP "$(cat "$PIDFILE")"\n    ;;',
    "runit": "",
}
"""Tool -> the lines that make a service able to reload its configuration; runit sends SIGHUP to every one."""
BY_HAND: Mapping[str, Mapping[str, str]] = {
    "systemd": {
        "start": "systemctl start {name}", "stop": "systemctl stop {name}",
        "enable": "systemctl enable -q {name}", "disable": "systemctl disable -q {name}",
    },
    "openrc": {
        "start": "rc-service {name} start", "stop": "rc-service {name} stop",
        "enable": "rc-update add {name} default", "disable": "rc-update delete {name} default",
    },
    "sysv": {
        "start": "/etc/init.d/{name} start </dev/null >/dev/null 2>&1", "stop": "/etc/init.d/{name} stop",
        "enable": "update-rc.d {name} enable", "disable": "update-rc.d {name} disable",
    },
    "runit": {
        "start": "sv -w 60 start {name}", "stop": "sv -w 60 stop {name}",
        "enable": "rm /etc/sv/{name}/down", "disable": "touch /etc/sv/{name}/down",
    },
}  # fmt: skip
"""Tool -> what an administrator types."""


def files(tool: str, name: str, mode: str = "runs") -> dict[str, str]:
    """Return the files of a service, by path. One in the mode `deaf` cannot reload its configuration."""
    reload = "" if mode == "deaf" else RELOAD[tool]

    def fill(text: str) -> str:
        for word, value in (("{daemon}", DAEMON), ("{mode}", mode), ("{reload}", reload), ("{name}", name)):
            text = text.replace(word, value)
        return text

    return {fill(path): fill(text) for path, text in FILES[tool].items()}


class ServiceSite:
    """A host with one of the tools."""

    def __init__(self, tool: str, host: lab.Host, driver: Driver) -> None:
        self.tool, self.host, self.driver = tool, host, driver

    def add(self, name: str = "toy", mode: str = "runs") -> None:
        """Add a service that neither runs nor starts at boot."""
        self.host.write(DAEMON, PROGRAM, 0o755)
        for path, text in files(self.tool, name, mode).items():
            self.host.write(path, text, 0o755 if text.startswith("#!") else 0o644)

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of the provider; of one that changes something, return the changes."""
        result = self.driver.call(f"service.{function}", *arguments, **options)
        return result["changes"] if isinstance(result, dict) and "changes" in result else result

    def status(self, name: str = "toy") -> dict[str, Any]:
        """Return the status of a service."""
        return self.call("status", [name])[name]  # type: ignore[no-any-return]

    def state(self, name: str = "toy") -> tuple[bool, str, bool]:
        """Return whether a service runs, its state, and whether it starts at boot."""
        status = self.status(name)
        return status["active"], status["state"], status["enabled"]

    def by_hand(self, verb: str, name: str = "toy") -> None:
        """Change a service with the commands of the tool."""
        self.host.sh(BY_HAND[self.tool][verb].format(name=name))

    def kill(self, name: str = "toy") -> None:
        """Kill the process of a service."""
        self.host.sh(f"kill -KILL {self.status(name)['pid']}")


@contextmanager
def booted(run: lab.Run, tool: str) -> Iterator[ServiceSite]:
    """Boot a fresh host with one of the tools, and Holdfast."""
    layers = installed.layers(run)
    if tool == "systemd":
        host = run.host(layers=layers)
    else:
        host = run.host(layers=(inits.layer(run, tool), *layers), init=inits.INITS[tool].program)
    try:
        with Driver(host) as driver:
            yield ServiceSite(tool, host, driver)
    finally:
        host.down()
