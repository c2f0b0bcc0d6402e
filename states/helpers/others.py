"""Functions on other hosts, which return what a minion without a master returns; also DNS, alternatives, checkouts."""

# ruff: noqa: ARG001, ARG005 - after the view, a function has the parameters and the name of Salt's, used or not
from __future__ import annotations

import ipaddress
import os
import subprocess
import time
from typing import Any

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.states.filters.files import which
from holdfast.states.helpers.host import in_subnet
from holdfast.states.helpers.table import helper, looking
from holdfast.states.source import hostfiles
from holdfast.states.view.host_view import Forbidden, HostView

HOSTS = "/etc/hosts"
ALTERNATIVES = "/etc/alternatives"
TIMEOUT = 10.0
"""Maximum duration of a query of the DNS, in seconds."""
NO_MASTER = "No access to master. If using salt-call with --local, please remove."
"""Salt's answer to requests for a missing master."""

helper("mine.get")(lambda view, tgt, fun, tgt_type="glob", exclude_minion=False: {})
helper("publish.publish", "publish.full_data")(lambda view, tgt, fun, *_, **__: {})
helper("publish.runner")(lambda view, fun, *_, **__: NO_MASTER)
looking("network.ip_in_subnet")(lambda view, ip_addr, cidr: in_subnet(view, cidr, ip_addr))


def _dig(kind: str, host: str, nameserver: str | None) -> list[str]:
    """Return the addresses of a host in the DNS; empty without an answer.

    Raises `ValueError` if the program is missing.
    """
    if which("dig") is None:
        raise ValueError(f"dig.{kind} needs the program dig, which is not installed (Debian has it in bind9-dnsutils)")
    argv = ["dig", "+short", "-q", str(host), "-t", kind, *([f"@{nameserver}"] if nameserver is not None else [])]
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, "HOME": paths.own_home()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return []
    return [line for line in done.stdout.split("\n") if _is_address(line)] if done.returncode == 0 else []


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


looking("dig.A")(lambda view, host, nameserver=None: _dig("A", host, nameserver))
looking("dig.AAAA")(lambda view, host, nameserver=None: _dig("AAAA", host, nameserver))


@looking("dnsutil.serial")
def serial(view: HostView, zone: str = "", update: bool = False) -> str:
    """Return the serial of a zone: the grain `dnsserial_ZONE`, else the first one of today.

    Raises `Forbidden` for `update`, which would store it.
    """
    if update:
        raise Forbidden("templates change nothing: dnsutil.serial(update=True) would store a grain", "leave out update")
    key = f"dnsserial_{zone}" if zone else "dnsserial"
    return str(view.grains.get(key) or time.strftime("%Y%m%d01"))


@looking("alternatives.show_current")
def show_current(view: HostView, name: str) -> str | bool:
    """Return the path of an alternative; false if there is none."""
    try:
        return paths.at(hostfiles.absolute(f"{ALTERNATIVES}/{name}")).readlink()
    except (OSError, Permanent):
        return False


def _hosts() -> dict[str, Any]:
    """Return the lines of the hosts file, in Salt's form: address -> names and a comment.

    Comments are numbered from 0.
    """
    try:
        lines = hostfiles.read_text(HOSTS, errors="replace").splitlines()
    except (OSError, Permanent):
        return {}
    found: dict[str, Any] = {}
    comments = 0
    for line in map(str.strip, lines):
        if line.startswith("#"):
            found[f"comment-{comments}"] = [line]
            comments += 1
            continue
        text, sign, comment = line.partition("#")
        address, *names = text.split() or [""]
        if address:
            found.setdefault(address, {}).setdefault("aliases", []).extend(names)
            if sign and comment.lstrip():
                found[address]["comment"] = comment.lstrip()
    return found


def _names(address: str) -> list[str]:
    entry = _hosts().get(address, {})
    return entry["aliases"] if isinstance(entry, dict) and entry else []


looking("hosts.list_hosts")(lambda view: _hosts())
looking("hosts.get_ip")(lambda view, host: next((ip for ip in _hosts() if host in _names(ip)), ""))
looking("hosts.get_alias")(lambda view, ip: _names(ip))
looking("hosts.has_pair")(lambda view, ip, alias: {*(alias if isinstance(alias, list) else [alias])} <= {*_names(ip)})


@looking("git.current_branch")
def current_branch(view: HostView, cwd: str, user: str | None = None, **_: Any) -> str:
    """Return the branch of a checkout; `HEAD` if no branch is checked out. Raises `ValueError` without a checkout.

    The branch is read from files: neither git nor the hooks of the checkout run.
    """
    directory = hostfiles.absolute(cwd)
    while hostfiles.look(f"{directory}/.git") is None:
        if directory == "/":
            raise ValueError(f"{cwd} is not a checkout of git: neither it nor a directory above has .git")
        directory = directory.rpartition("/")[0] or "/"
    home = f"{directory}/.git"
    if hostfiles.is_file(home):  # of a worktree, or a submodule
        home = hostfiles.absolute(
            f"{directory}/{leads}" if not (leads := _line(home).removeprefix("gitdir: ")).startswith("/") else leads
        )
    head = _line(f"{home}/HEAD")
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else "HEAD"


def _line(path: str) -> str:
    """Return the first line of a file of a checkout. Raises `ValueError`."""
    try:
        return hostfiles.read_text(path).split("\n")[0]
    except (OSError, Permanent) as error:
        raise ValueError(f"cannot read the checkout: {error}") from None
