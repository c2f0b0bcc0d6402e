"""Host name, time zone and locales: cases that a test cannot make on the real machine, and failures."""

from __future__ import annotations

import errno
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds import hostname, locale, network, timezone
from holdfast.resources.kinds._lines import ended
from holdfast.resources.testing import FakeContext

TEXTS = st.text(alphabet='ab #="\n\r_.8LANG\udcff', max_size=60)


def others(text, mark):
    """Return the lines without this mark; the end of the last one is added if it is missing."""
    return [bare for line in text.split("\n") if (bare := line.removesuffix("\r")) and mark not in bare]


@pytest.fixture
def ctx(tmp_path):
    """A context of its own."""
    return FakeContext(tmp_path)


@pytest.fixture
def zones(tmp_path, monkeypatch):
    """A host with the zones A/B and UTC, whose link leads to UTC."""
    (tmp_path / "zones/A").mkdir(parents=True)
    (tmp_path / "zones/A/B").write_text("one")
    (tmp_path / "zones/UTC").write_text("none")
    (tmp_path / "localtime").symlink_to("zones/UTC")
    monkeypatch.setattr(timezone, "ZONES", str(tmp_path / "zones"))
    for word, file in (("LINK", "localtime"), ("NAMED", "timezone"), ("CLOCK", "adjtime"), ("DEVICE", "rtc")):
        monkeypatch.setattr(timezone, word, str(tmp_path / file))
    return tmp_path


# -- the name of the host ---------------------------------------------------------------------------------------------


async def test_a_name_that_the_kernel_refuses_is_not_kept_for_the_next_boot(ctx, tmp_path, monkeypatch):
    """A container may not be permitted to change the name."""

    def refuse(_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "sethostname", refuse)
    wanted = hostname.System.declare("never-so", config=str(tmp_path / "hostname"))
    with pytest.raises(Permanent, match="cannot set the name of this host: operation not permitted; a container"):
        await wanted.check_apply(ctx, True)
    assert not (tmp_path / "hostname").exists()


async def test_a_name_is_undone(ctx, tmp_path):
    """The name is undone only if the file had one before."""
    file = tmp_path / "hostname"
    wanted = hostname.System.declare("b", config=str(file), apply_hostname=False)
    assert await wanted.inverse(ctx) is None
    file.write_text("# mine\na\n")
    before = await wanted.inverse(ctx)
    await wanted.check_apply(ctx, True)
    await hostname.System.declare(**before.arguments).check_apply(ctx, True)
    assert file.read_text() == "# mine\na\n"


@pytest.mark.parametrize("name", ["-a", "a-", "a..b", "a b", "a\n", "a\0", "ä", "a" * 64, "a." * 40 + "a", "", "a_b"])
def test_what_is_no_name_is_refused(name):
    """The error is raised before anything runs."""
    with pytest.raises(ValidationError, match="the name of a host"):
        hostname.System.declare(name)


def test_two_names_contradict_each_other():
    """They do so although neither state gives an argument."""
    assert "not b" in str(hostname.System.declare("a").contradicts(hostname.System.declare("b")))
    assert hostname.System.declare("a").contradicts(hostname.System.declare("a")) is None


def test_salts_state_is_the_same_name():
    """The ID of the state is any text. Settings of the network are refused, with an alternative."""
    theirs = network.System.declare("any text", hostname="a")
    assert theirs.contradicts(hostname.System.declare("a")) is None
    assert theirs.contradicts(hostname.System.declare("b")) == "the host's name is a, not b"
    assert theirs.uids() == hostname.System.declare("a").uids()
    with pytest.raises(ValidationError):
        network.System.declare("any text", hostname="a", gateway="192.0.2.1")


@given(TEXTS)
def test_an_edit_of_the_name_keeps_all_comments(text):
    """A second edit changes nothing."""
    wanted = hostname.System.declare("x")
    new = wanted.edited(text)
    assert wanted.read(new) == {"static": "x"}
    assert wanted.edited(new) == new
    comments = [line for line in others(text, "x") if line.lstrip().startswith("#")]
    assert [line for line in others(new, "x") if line.lstrip().startswith("#")] == comments


# -- the time zone ----------------------------------------------------------------------------------------------------


async def test_a_relative_link_and_a_missing_file_of_the_name_are_right(zones, ctx):
    """The file with the name is not created if the distribution has none."""
    assert await timezone.System.declare("UTC").check_apply(ctx, True)
    assert not await timezone.System.declare("A/B").check_apply(ctx, True)
    assert str((zones / "localtime").readlink()) == f"{zones}/zones/A/B"
    assert not (zones / "timezone").exists()


async def test_the_zone_is_undone(zones, ctx):
    """The former zone of the link is restored. A link to another file cannot be described."""
    before = await timezone.System.declare("A/B").inverse(ctx)
    assert before is not None
    assert before.arguments == {"name": "UTC", "utc": False}
    for target in ("/elsewhere", "zones/none"):
        (zones / "localtime").unlink()
        (zones / "localtime").symlink_to(target)
        assert await timezone.System.declare("A/B").inverse(ctx) is None


async def test_without_a_table_of_zones_the_package_is_named(zones, ctx):
    """A small container may have no zones."""
    with pytest.raises(Permanent, match="it comes with the package tzdata"):
        await timezone.System.declare("No/Zone").check_apply(ctx, False)


async def test_a_clock_in_local_time_is_set_by_its_tool(zones, ctx):
    """The tool writes the clock and its file. A failure of the tool is the error."""
    (zones / "rtc").touch()
    (zones / "adjtime").write_text("0.0 0 0.0\n0\nLOCAL\n")
    with pytest.raises(Permanent, match="hwclock --systohc --utc"):
        await timezone.System.declare("UTC").check_apply(ctx, True)
    assert ctx.calls == ["hwclock --systohc --utc"]


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/passwd", "A//B", "A/", "", "A B", "A\n", "A/../B"])
def test_what_is_no_zone_is_refused(name):
    """The link must lead to a zone."""
    with pytest.raises(ValidationError, match="the name of a time zone"):
        timezone.System.declare(name)


# -- locales ----------------------------------------------------------------------------------------------------------


@given(TEXTS)
def test_an_edit_of_the_default_locale_keeps_all_other_lines(text):
    """A second edit changes nothing."""
    wanted = locale.System.declare("de_DE.UTF-8")
    new = wanted.edited(text)
    assert wanted.read(new) == wanted.desired()
    assert wanted.edited(new) == new
    assert others(new, "LANG=") == others(ended(text), "LANG=")


@given(st.lists(st.sampled_from(["# de_DE.UTF-8 UTF-8", "#de_DE.UTF-8 UTF-8", "de_DE ISO-8859-1", "# x", "", "\r"])))
def test_an_edit_of_the_list_keeps_all_other_lines(lines):
    """The edit only uncomments the line of the locale, or adds a line."""
    wanted, text = locale.Present.declare("de_DE.utf8"), "\n".join(lines)
    new = wanted.edited(text)
    assert wanted.read(new) == {"listed": True}
    assert abs(len(new.split("\n")) - len(text.split("\n"))) <= 2


@pytest.mark.parametrize(
    ("name", "normal", "written"),
    [
        ("de_DE.UTF-8", "de_DE.utf8", "de_DE.UTF-8"),
        ("de_DE.utf8 UTF-8", "de_DE.utf8", "de_DE.UTF-8"),
        ("de_DE@euro ISO-8859-15", "de_DE@euro", "de_DE@euro"),
        ("sr_RS.UTF-8@latin", "sr_RS.utf8@latin", "sr_RS.UTF-8@latin"),
        ("de_DE.ISO-8859-1", "de_DE.iso88591", "de_DE.ISO-8859-1"),
        ("C", "C", "C"),
    ],
)
def test_spellings_of_locales(name, normal, written):
    """The spelling of `locale -a` and the usual one are equal."""
    assert (locale.parsed(name).normal, locale.parsed(name).written) == (normal, written)


@pytest.mark.parametrize("name", ["-i", "a/b", "de_DE;x", "../x", "de_DE.UTF-8\n", "de_DE.UTF-8 UTF-8 x", "", "$(x)"])
def test_what_is_no_locale_is_refused(name):
    """The text would become an argument of a command and part of a file."""
    for kind in (locale.Present, locale.System):
        with pytest.raises(ValidationError, match="a locale"):
            kind.declare(name)


async def test_a_compilation_that_fails_is_told(ctx, monkeypatch, tmp_path):
    """The error has the last line of localedef's output. Warnings are not a failure."""
    monkeypatch.setattr(locale, "LISTED", str(tmp_path / "none"))
    known = []
    ctx.commands = {
        "locale -a": lambda: "\n".join(known),
        "localedef -i de_DE -c -f UTF-8 de_DE.UTF-8": {"retcode": 4, "stderr": "no space"},
    }
    wanted = locale.Present.declare("de_DE.UTF-8")
    with pytest.raises(Permanent, match=r"cannot compile the locale de_DE.UTF-8: no space"):
        await wanted.check_apply(ctx, True)

    def compile_it():
        known.append("de_DE.utf8")
        return {"retcode": 1, "stderr": "[warning] odd"}

    ctx.commands["localedef -i de_DE -c -f UTF-8 de_DE.UTF-8"] = compile_it
    assert not await wanted.check_apply(ctx, True)
    assert not (tmp_path / "none").exists()


async def test_a_system_without_a_known_file_needs_its_name(ctx, monkeypatch):
    """On Alpine, for example, the file of the locale must be declared."""
    monkeypatch.setattr(locale.paths, "exists", lambda _: False)
    with pytest.raises(Permanent, match=r"the file with the locale of this system is unknown: .*name the file"):
        await locale.System.declare("C.UTF-8").check_apply(ctx, False)
