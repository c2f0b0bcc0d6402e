"""Errors of kinds contain the reason that a failed tool has printed."""

from __future__ import annotations

import pytest

from holdfast.resources.context import Completed
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._commands import reason
from holdfast.resources.testing import FakeContext
from holdfast.resources.tool_packages import remedy
from holdfast.resources.watches import idle

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
    """The reason is one line with the error messages, without progress, usage, excerpts and the name of the program."""
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
    """The reason is its last three lines on standard error, or else on standard output, or else its exit status."""
    assert reason(Completed(("/usr/bin/tool",), 1, status, out, err)) == told


def test_a_reason_is_short():
    """A line of megabytes does not reach the log as a whole."""
    assert len(reason(Completed(("tool",), 1, 1, "", "x" * 10_000))) == 500


def test_the_remedy_for_a_missing_tool_names_its_packages():
    """Debian and distributions of RPM packages may call it differently, and one of them may not have it."""
    assert remedy("crontab") == "install it with pkg.installed: cron (Debian) or cronie (RPM)"
    assert remedy("/usr/bin/debconf-set-selections") == "install it with pkg.installed: debconf (Debian)"
    assert remedy("frobnicate") == "is it installed?"


class Stubborn(Resource):
    """A thing that no repair changes."""

    state: dict[str, object] | None
    wanted: dict[str, object] | None

    def desired(self):
        """Return the desired state."""
        return self.wanted

    async def probe(self, ctx):
        """Return the present state."""
        return self.state

    async def apply(self, ctx, delta):
        """Do nothing."""

    def watch(self, ctx):
        """Watch nothing."""
        return idle()


@pytest.mark.parametrize(
    ("state", "wanted", "told"),
    [
        (
            {"mode": "0644", "on": True},
            {"mode": "0600", "on": True},
            "mode is '0644', not '0600'; perhaps another program",
        ),
        ({"text": "a" * 99, "b": 1}, {"text": "b", "b": 2}, "text, b is 1, not 2; perhaps another program sets it, or"),
        ({"password": "hunter2"}, {"password": "hunter3"}, "password; perhaps"),
        (None, {"mode": "0600"}, "x does not exist"),
        ({"mode": "0600"}, None, "x is still there"),
    ],
)
async def test_what_still_differs_after_a_repair_is_told(tmp_path, state, wanted, told):
    """The error has both values, if they are short and not secret."""
    with pytest.raises(Permanent) as error:
        await Stubborn.declare("x", state=state, wanted=wanted).check_apply(FakeContext(tmp_path), True)
    assert str(error.value).startswith(f"still differs after the repair: {told}")
    assert "hunter" not in str(error.value)
