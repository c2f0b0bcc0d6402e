"""The reason that an error gives for the failure of a tool is what the tool has said about it."""

from __future__ import annotations

import pytest

from holdfast.resources.context import Completed
from holdfast.resources.kinds._commands import reason
from holdfast.resources.tool_packages import remedy

MOUNT = """\
mount: /mnt: special device /dev/nope does not exist.
       dmesg(1) may have more information after failed mount system call.
"""
VISUDO = """\
/etc/sudoers.d/web:1:5: syntax error
web ALL
    ^~~
"""
NFT = """\
/dev/stdin:1:10-12: Error: Could not process rule: No such file or directory
add rule ip web in accept
            ^^^
"""
IPTABLES = """\
iptables v1.8.9 (nf_tables): unknown option "--nope"
Try `iptables -h' or 'iptables --help' for more information.
"""
REJECTED = """\
From /srv/web
 ! [rejected]        1.0        -> 1.0  (would clobber existing tag)
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "/usr/local/bin/check", line 3, in <module>
    check()
ValueError: no user in line 7
"""
NGINX = """\
nginx: [emerg] unknown directive "lisen" in /etc/nginx/nginx.conf:3
nginx: configuration file /etc/nginx/nginx.conf test failed
"""


@pytest.mark.parametrize(
    ("program", "said", "told"),
    [
        ("mount", MOUNT, "/mnt: special device /dev/nope does not exist"),
        ("/usr/sbin/visudo", VISUDO, "/etc/sudoers.d/web:1:5: syntax error"),
        ("nft", NFT, "Could not process rule: No such file or directory"),
        ("iptables", IPTABLES, 'unknown option "--nope"'),
        ("git", "Cloning into 'x'...\nfatal: repository '/x' does not exist\n", "repository '/x' does not exist"),
        ("git", REJECTED, "! [rejected]        1.0        -> 1.0  (would clobber existing tag)"),
        ("update-alternatives", "update-alternatives: error: no alternatives for x\n", "no alternatives for x"),
        (
            "modprobe",
            "modprobe: FATAL: Module x not found in directory /lib/x\n",
            "Module x not found in directory /lib/x",
        ),
        ("localedef", "[error] cannot open locale definition file `x'\n", "cannot open locale definition file `x'"),
        ("ufw", "ERROR: Bad port\n", "Bad port"),
        (
            "crontab",
            '"-":1: bad minute\nerrors in file, cannot install.\n',
            '"-":1: bad minute; errors in file, cannot install',
        ),
        ("check", TRACEBACK, "ValueError: no user in line 7"),
        ("nginx", NGINX, '[emerg] unknown directive "lisen" in /etc/nginx/nginx.conf:3'),
    ],
)
def test_a_reason_is_what_the_tool_says_without_its_name_and_what_does_not_help(program, said, told):
    """One line: the messages of errors, neither progress, usage, excerpts nor the name of the program."""
    assert reason(Completed((program,), 1, 1, "", said)) == told


@pytest.mark.parametrize(
    ("status", "out", "err", "told"),
    [
        (1, "the port is taken\n", " \n", "the port is taken"),
        (3, "", "", "tool ended with status 3"),
        (-9, "", "", "tool was killed by signal 9"),
        (1, "", "a\nb\nc\nd\n", "b; c; d"),
        (1, "", "again\nagain\n", "again"),
    ],
)
def test_a_tool_without_messages_of_errors_has_said_so_in_its_last_lines(status, out, err, told):
    """Its last three lines on standard error, or else on standard output, or else how it has ended."""
    assert reason(Completed(("/usr/bin/tool",), 1, status, out, err)) == told


def test_a_reason_is_short():
    """A line of megabytes does not reach the log as a whole."""
    assert len(reason(Completed(("tool",), 1, 1, "", "x" * 10_000))) == 500


def test_the_remedy_for_a_missing_tool_names_its_packages():
    """Debian and distributions of RPM packages may call it differently, and one of them may not have it."""
    assert remedy("crontab") == "install it with pkg.installed: cron (Debian) or cronie (RPM)"
    assert remedy("/usr/bin/debconf-set-selections") == "install it with pkg.installed: debconf (Debian)"
    assert remedy("frobnicate") == "is it installed?"
