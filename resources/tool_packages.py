"""Packages of the tools that kinds run: the error for a missing tool names its package."""

from __future__ import annotations

import posixpath

PACKAGES: dict[str, tuple[str, str]] = {
    "crontab": ("cron", "cronie"),
    "debconf-set-selections": ("debconf", ""),
    "gem": ("rubygems", "rubygems"),
    "git": ("git", "git"),
    "gpg": ("gpg", "gnupg2"),
    "hwclock": ("util-linux-extra", "util-linux"),
    "ip6tables": ("iptables", "iptables"),
    "ip6tables-save": ("iptables", "iptables"),
    "iptables": ("iptables", "iptables"),
    "iptables-save": ("iptables", "iptables"),
    "localedef": ("libc-bin", "glibc-common"),
    "logrotate": ("logrotate", "logrotate"),
    "modprobe": ("kmod", "kmod"),
    "nft": ("nftables", "nftables"),
    "npm": ("npm", "nodejs-npm"),
    "pip": ("python3-pip", "python3-pip"),
    "postconf": ("postfix", "postfix"),
    "rmmod": ("kmod", "kmod"),
    "ssh-keyscan": ("openssh-client", "openssh-clients"),
    "ufw": ("ufw", "ufw"),
    "update-alternatives": ("dpkg", "alternatives"),
    "visudo": ("sudo", "sudo"),
}
"""Tool -> its package in Debian and its relatives, and in distributions of RPM packages; empty if they have none."""


def remedy(tool: str) -> str:
    """Return what to do about a missing tool, as the end of an error message."""
    debian, rpm = PACKAGES.get(posixpath.basename(tool), ("", ""))
    if not debian:
        return "is it installed?"
    if debian == rpm:
        return f"install it with pkg.installed: {debian}"
    return f"install it with pkg.installed: {debian} (Debian)" + (f" or {rpm} (RPM)" if rpm else "")
