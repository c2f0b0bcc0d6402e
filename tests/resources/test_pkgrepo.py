"""Decisions of `pkgrepo.*`: the entry that a state means, changes of this entry, and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.apt_lines import fields_of_line, line_of
from holdfast.resources.errors import HoldfastError
from holdfast.resources.openpgp import armored, binary
from holdfast.resources.testing import FakeContext
from public_key import FINGERPRINT, KEY
from repositories import Apt, Rpm

LINE = "deb https://x.example.org/apt stable main"
LIST = "/etc/apt/sources.list.d/x.example.org-apt.list"
PATH = "/etc/apt/keyrings/x.example.org-apt.asc"
KEY_PACKET, SUBKEY_PACKET = 0x98, 0xB8
"""First bytes of a primary key and of a subkey, with a length of one byte."""


@pytest.fixture
def apt(tmp_path: Path) -> Apt:
    """Return a host of apt without repositories."""
    return Apt(tmp_path / "root")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that runs a state, and returns its context with `right`."""

    async def runner(
        pkg: Apt, kind: str, name: str, *, apply: bool = True, family: str = "Debian", **given: Any
    ) -> Any:
        cls = registry.find(kind)
        assert cls is not None
        var_dir = tmp_path / "var"
        var_dir.mkdir(exist_ok=True)
        facts = {"os_family": family, "os": given.pop("os", family), "oscodename": "noble"}
        ctx = FakeContext(var_dir, facts=facts, interfaces={"pkg": pkg}, sources=given.pop("sources", {}))
        return await cls.declare(name, **given).check_apply(ctx, apply), ctx

    return runner


async def test_an_entry_is_added_once_and_removed(apt, run):
    """A plan writes nothing, a second run changes nothing, and `absent` removes the entry and its file."""
    right, ctx = await run(apt, "pkgrepo.managed", LINE, apply=False)
    assert (right, ctx.report.changes, apt.read(LIST)) == (False, {"repo": LINE}, None)
    right, ctx = await run(apt, "pkgrepo.managed", LINE)
    assert (right, ctx.report.changes, apt.read(LIST)) == (False, {"repo": LINE}, f"{LINE}\n")
    assert (ctx.report.comment, apt.refreshed) == (f"added the repository {LINE}", ["x.example.org-apt"])
    assert (await run(apt, "pkgrepo.managed", f"{LINE.replace('/apt', '/apt/')}"))[0], "a slash at the end is the same"
    right, ctx = await run(apt, "pkgrepo.absent", LINE)
    assert (right, ctx.report.changes, apt.read(LIST)) == (False, {"repo": LINE}, None)
    assert (await run(apt, "pkgrepo.absent", LINE))[0]


async def test_a_repository_that_is_one_directory_has_no_components(apt, run):
    """The suite of such a repository ends with a slash.

    Any other entry without components makes apt refuse all repositories.
    """
    name = "deb https://x.example.org/apt ./"
    right, ctx = await run(apt, "pkgrepo.managed", name)
    assert (right, ctx.report.changes, apt.read(LIST)) == (False, {"repo": name}, f"{name}\n")
    assert (await run(apt, "pkgrepo.managed", name))[0]
    with pytest.raises(ValidationError, match="names no component"):
        registry.find("pkgrepo.managed").declare("deb https://x.example.org/apt stable")


@pytest.mark.parametrize(
    ("before", "given", "after", "changes"),
    [
        (f"{LINE} extra", {}, LINE, {"comps": {"old": ["main", "extra"], "new": ["main"]}}),
        (LINE, {"comps": "main,extra"}, f"{LINE} extra", {"comps": {"old": ["main"], "new": ["main", "extra"]}}),
        (f"# {LINE}", {}, LINE, {"disabled": {"old": True, "new": False}}),
        (LINE, {"enabled": False}, f"# {LINE}", {"disabled": {"old": False, "new": True}}),
        (LINE, {"disabled": True}, f"# {LINE}", {"disabled": {"old": False, "new": True}}),
        (
            LINE,
            {"architectures": "amd64, i386"},
            LINE.replace("deb ", "deb [arch=amd64,i386] "),
            {"architectures": {"old": [], "new": ["amd64", "i386"]}},
        ),
        (f"{LINE} extra", {"comps": ["extra", "main"]}, f"{LINE} extra", {}),
        (LINE, {"dist": "testing"}, f"{LINE}\n{LINE.replace('stable', 'testing')}", {"repo": LINE}),
        (LINE, {"dist": "stable", "refresh_db": False}, LINE, {}),
    ],
)
async def test_an_entry_is_changed_where_it_is(apt, run, before, given, after, changes):  # noqa: PLR0917 - a table
    """Other lines of its file stay as they are. Another suite is another repository."""
    apt.write(LIST, f"# by hand\n{before}\ndeb http://other.example.org x y\n")
    right, ctx = await run(apt, "pkgrepo.managed", LINE, **given)

    assert (right, ctx.report.changes) == (not changes, changes)
    lines = f"# by hand\n{after.splitlines()[0]}\ndeb http://other.example.org x y\n"
    assert apt.read(LIST) == lines + "".join(f"{line}\n" for line in after.splitlines()[1:])
    assert (await run(apt, "pkgrepo.managed", LINE, **given))[0]


STANZA = """\
# Debian itself
Types: deb
URIs: https://x.example.org/apt/
Suites: stable stable-updates
Components: main contrib
Signed-By: /usr/share/keyrings/x.gpg
"""


async def test_an_entry_of_several_repositories_is_left_alone(apt, run):
    """The entry counts if it has all components. A new entry has the same key, because apt demands that."""
    apt.write("/etc/apt/sources.list.d/debian.sources", STANZA)
    assert (await run(apt, "pkgrepo.managed", LINE))[0]
    assert not (await run(apt, "pkgrepo.managed", f"{LINE} non-free"))[0]

    assert apt.read("/etc/apt/sources.list.d/debian.sources") == STANZA
    assert apt.read(LIST) == f"deb [signed-by=/usr/share/keyrings/x.gpg] {LINE[4:]} non-free\n"
    with pytest.raises(HoldfastError, match="the entry also has other repositories and cannot be divided"):
        await run(apt, "pkgrepo.absent", LINE)
    await run(apt, "pkgrepo.absent", f"{LINE} contrib non-free")
    assert apt.read("/etc/apt/sources.list.d/debian.sources") == STANZA.replace(
        "stable stable-updates", "stable-updates"
    )
    assert apt.read(LIST) is None


async def test_two_states_add_to_one_file_at_once(apt, run):
    """Neither state overwrites the entry of the other."""
    names = [LINE, LINE.replace("x.example", "y.example")]
    file = "/etc/apt/sources.list.d/x.list"
    await asyncio.gather(*(run(apt, "pkgrepo.managed", name, file=file) for name in names))
    assert sorted((apt.read(file) or "").splitlines()) == sorted(names)


async def test_a_paragraph_is_written(apt, run):
    """A file that ends in .sources has paragraphs; those of other repositories are kept."""
    file = "/etc/apt/sources.list.d/x.sources"
    apt.write(file, "Types: deb\nURIs: http://a/\nSuites: ./\n")
    await run(apt, "pkgrepo.managed", LINE.replace("deb ", "deb [trusted=yes] "), file=file)
    assert apt.read(file) == (
        "Types: deb\nURIs: http://a/\nSuites: ./\n\n"
        "Types: deb\nURIs: https://x.example.org/apt\nSuites: stable\nComponents: main\nTrusted: yes\n"
    )


async def test_only_the_named_components_are_removed(apt, run):
    """They are removed from all files; the rest of an entry stays."""
    apt.write("/etc/apt/sources.list", f"{LINE} extra\n{LINE}\n")
    apt.write(LIST, f"# {LINE}\n")
    await run(apt, "pkgrepo.absent", LINE)
    assert (apt.read("/etc/apt/sources.list"), apt.read(LIST)) == (f"{LINE.replace('main', 'extra')}\n", None)


@pytest.mark.parametrize("ending", ["list", "sources"])
async def test_a_bare_name_is_that_of_the_file(apt, run, ending):
    """`absent` removes the only entry of the file, with the key. A name without a file is absent, as in Salt."""
    right, ctx = await run(apt, "pkgrepo.absent", "docker")
    assert (right, ctx.report.changes) == (True, {})
    assert ctx.report.comment == ("the repository docker is absent: /etc/apt/sources.list.d has no file with that name")
    file = f"/etc/apt/sources.list.d/docker.{ending}"
    await run(apt, "pkgrepo.managed", LINE, file=file, key_text=KEY)
    apt.write("/etc/apt/sources.list", "deb https://y.example.org/ stable main\n")
    right, ctx = await run(apt, "pkgrepo.absent", "docker", apply=False)
    changes = {"repo": "docker", "key": {"old": "key", "new": None}}
    assert (right, ctx.report.changes, bool(apt.read(file))) == (False, changes, True)
    assert not (await run(apt, "pkgrepo.absent", "docker"))[0]
    assert (apt.read(file), apt.read(PATH)) == (None, None)
    assert (await run(apt, "pkgrepo.absent", "docker"))[0]
    assert (await run(apt, "pkgrepo.absent", "sources.list"))[0], "the main file is no repository"
    assert apt.read("/etc/apt/sources.list")


async def test_a_bare_name_of_several_entries_is_an_error(apt, run):
    """The error shows the entries, without passwords, and nothing is removed."""
    text = f"{LINE}\ndeb-src https://me:secret@x.example.org/apt stable main\n"
    apt.write("/etc/apt/sources.list.d/docker.list", text)
    with pytest.raises(HoldfastError, match="has several entries; declare each unwanted entry") as error:
        await run(apt, "pkgrepo.absent", "docker")
    assert "'deb-src https://***@x.example.org/apt stable main'" in str(error.value)
    assert apt.read("/etc/apt/sources.list.d/docker.list") == text


async def test_a_paragraph_of_several_repositories_is_removed_by_its_bare_name(apt, run):
    """The file with that name is removed, although no single line names the entry."""
    file = "/etc/apt/sources.list.d/both.sources"
    apt.write(file, "Types: deb deb-src\nURIs: https://x.example.org/apt\nSuites: stable\nComponents: main\n")
    await run(apt, "pkgrepo.absent", "both")
    assert apt.read(file) is None


async def test_a_clean_file_has_no_other_entries(apt, run):
    """When the file has only this entry, a second run changes nothing."""
    file = "/etc/apt/sources.list.d/x.list"
    apt.write(file, "deb http://other.example.org x y\n")
    assert not (await run(apt, "pkgrepo.managed", LINE, file=file, clean_file=True))[0]
    assert apt.read(file) == f"{LINE}\n"
    assert (await run(apt, "pkgrepo.managed", LINE, file=file, clean_file=True))[0]


async def test_a_key_is_in_a_file_of_its_own(apt, run):
    """Only this repository trusts it, unless the state wants otherwise; `absent` removes it."""
    await run(apt, "pkgrepo.managed", LINE, key_text=KEY)
    assert (apt.read(PATH), apt.read(LIST)) == (KEY, f"deb [signed-by={PATH}] {LINE[4:]}\n")
    await run(apt, "pkgrepo.managed", f"deb-src {LINE[4:]}")
    assert apt.read(LIST) == f"deb [signed-by={PATH}] {LINE[4:]}\ndeb-src [signed-by={PATH}] {LINE[4:]}\n"
    await run(apt, "pkgrepo.absent", LINE)
    assert apt.read(PATH) == KEY, "the sources need it"
    await run(apt, "pkgrepo.absent", f"deb-src {LINE[4:]}")
    assert apt.read(PATH) is None
    await run(apt, "pkgrepo.managed", LINE, key_text=KEY, aptkey=True)
    assert apt.read("/etc/apt/trusted.gpg.d/x.example.org-apt.asc") == KEY
    await run(apt, "pkgrepo.absent", LINE, keyid="835CD4F3")
    assert apt.read("/etc/apt/trusted.gpg.d/x.example.org-apt.asc") is None


async def test_a_key_is_parsed_in_a_thread(apt, run, monkeypatch):
    """A server may send a megabyte, whose checksum takes a moment in Python."""
    called = []

    async def blocking(self, call, *args):
        called.append(call.__name__)
        return call(*args)

    monkeypatch.setattr(FakeContext, "blocking", blocking)
    await run(apt, "pkgrepo.managed", LINE, key_text=KEY)
    assert called
    assert {*called} == {"_checked"}


async def test_a_key_outside_of_the_directory_of_apt_is_kept(apt, run):
    """The path may lead out of the directory by `..`."""
    apt.write("/etc/outside.asc", KEY)
    apt.write(LIST, f"deb [signed-by=/etc/apt/../outside.asc] {LINE[4:]}\n")
    await run(apt, "pkgrepo.absent", LINE, keyid="835CD4F3")
    assert (apt.read(LIST), apt.read("/etc/outside.asc")) == (None, KEY)


async def test_a_key_for_a_path_that_the_state_names(apt, run):
    """The key is written without armor, as apt demands for a file that does not end in .asc."""
    name = LINE.replace("deb ", "deb [signed-by=/usr/share/keyrings/x.gpg] ")
    await run(apt, "pkgrepo.managed", name, key_text=KEY)
    file = apt.place(Path("/usr/share/keyrings/x.gpg"))
    assert file.read_bytes() == binary(KEY.encode())
    file.write_text(KEY)
    _, ctx = await run(apt, "pkgrepo.managed", name, key_text=KEY)
    assert ctx.report.changes == {"key": {"old": "another key", "new": "key /usr/share/keyrings/x.gpg"}}
    assert file.read_bytes() == binary(KEY.encode())


async def test_a_fetched_key_is_kept_for_repairs(apt, run):
    """The second repair needs no server. Another URL means another key."""
    url = "https://x.example.org/key"
    await run(apt, "pkgrepo.managed", LINE, key_url=url, sources={url: KEY})
    apt.write(PATH, "damaged")
    await run(apt, "pkgrepo.managed", LINE, key_url=url)
    assert apt.read(PATH) == KEY
    with pytest.raises(HoldfastError, match="the test has no such source"):
        await run(apt, "pkgrepo.managed", LINE, key_url=f"{url}2")
    with pytest.raises(HoldfastError, match=f"it is {FINGERPRINT}, not 0000000000000001"):
        await run(apt, "pkgrepo.managed", LINE, key_url=url, keyid="0000000000000001", sources={url: KEY})


async def test_a_key_server_must_send_the_right_key(apt, run):
    """The id may be short, or a number for YAML. hkp is HTTP with a port of its own."""
    for keyid, server, asked in (
        (FINGERPRINT, "keys.example.org", "https://keys.example.org"),
        (0xD2E26E28835CD4F3, "hkp://keys.example.org", "http://keys.example.org:11371"),
        ("835CD4F3", "hkp://keys.example.org:80", "http://keys.example.org:80"),
    ):
        digits = f"{keyid:x}" if isinstance(keyid, int) else keyid.lower()
        url = f"{asked}/pks/lookup?op=get&options=mr&exact=on&search=0x{digits}"
        await run(apt, "pkgrepo.managed", LINE, keyid=keyid, keyserver=server, sources={url: KEY})
        assert apt.read(PATH) == KEY
    url = "https://keys.example.org/pks/lookup?op=get&options=mr&exact=on&search=0x0000000000000001"
    with pytest.raises(HoldfastError, match=f"it is {FINGERPRINT}, not 0000000000000001"):
        await run(
            apt, "pkgrepo.managed", LINE, keyid="0000000000000001", keyserver="keys.example.org", sources={url: KEY}
        )


@pytest.mark.parametrize(("tag", "told"), [(KEY_PACKET, "it also has the key"), (SUBKEY_PACKET, f"not {FINGERPRINT}")])
async def test_a_key_that_comes_with_the_right_one_is_refused(apt, run, tag, told):
    """An attacker in the network can add another key, or make the right key a subkey of it."""
    right, own = binary(KEY.encode()), b"\x98\x06\x04own.."
    data = own + bytes([tag]) + right[1:] if tag == SUBKEY_PACKET else right + own
    assert right[0] == KEY_PACKET
    url = "http://x.example.org/key"
    given = {"key_url": url, "keyid": FINGERPRINT, "allow_insecure_key": False}
    with pytest.raises(HoldfastError, match=told):
        await run(apt, "pkgrepo.managed", LINE, sources={url: armored(data)}, **given)
    assert apt.read(PATH) is None


async def test_a_ppa(apt, run):
    """A PPA works only on Ubuntu; Launchpad names its key."""
    sources = {
        "https://launchpad.net/api/1.0/~toys/+archive/stable": f'{{"signing_key_fingerprint": "{FINGERPRINT}"}}',
        "https://keyserver.ubuntu.com/pks/lookup?op=get&options=mr&exact=on&search=0x" + FINGERPRINT.lower(): KEY,
    }
    await run(apt, "pkgrepo.managed", "toys", ppa="toys/stable", os="Ubuntu", sources=sources)
    stem = "ppa.launchpadcontent.net-toys-stable-ubuntu"
    assert apt.read(f"/etc/apt/sources.list.d/{stem}.list") == (
        f"deb [signed-by=/etc/apt/keyrings/{stem}.asc] https://ppa.launchpadcontent.net/toys/stable/ubuntu noble main\n"
    )
    with pytest.raises(HoldfastError, match="only Ubuntu has personal package archives"):
        await run(apt, "pkgrepo.managed", "toys", ppa="toys/stable")
    with pytest.raises(HoldfastError, match="names no key"):
        await run(
            apt,
            "pkgrepo.managed",
            "x",
            ppa="toys/none",
            os="Ubuntu",
            sources={key.replace("stable", "none"): "{}" for key in sources},
        )


async def test_a_refusal_changes_nothing(apt, run):
    """The error has the package manager's message, and no changes are reported."""
    apt.fails = "cannot fetch its lists of packages"
    with pytest.raises(HoldfastError, match="cannot fetch its lists"):
        await run(apt, "pkgrepo.managed", LINE, key_text=KEY)
    assert (apt.read(LIST), apt.read(PATH)) == (None, None)


async def test_a_password_in_a_url_is_not_shown(apt, run):
    """The password appears neither in the comment nor in the changes."""
    _, ctx = await run(apt, "pkgrepo.managed", "deb https://me:secret@x.example.org/ stable main")
    assert "secret" not in f"{ctx.report.comment}{ctx.report.changes}"


async def test_a_section_of_a_repo_file(tmp_path, run):
    """Fields that the state does not give stay; one source replaces another."""
    rpm = Rpm(tmp_path / "repos")
    rpm.root.mkdir()
    given = {"humanname": "Lab", "baseurl": "https://x/a", "gpgkey": "https://x/key", "sslverify": True}
    _, ctx = await run(rpm, "pkgrepo.managed", "lab", family="RedHat", **given)
    file = rpm.root / "lab.repo"
    assert ctx.report.changes == {"repo": "lab"}
    assert file.read_text() == (
        "[lab]\nname=Lab\ngpgkey=https://x/key\nsslverify=1\nbaseurl=https://x/a\nenabled=1\ngpgcheck=1\n"
    )
    _, ctx = await run(rpm, "pkgrepo.managed", "lab", family="RedHat", mirrorlist="https://x/m", enabled=0)
    assert {"enabled", "uris", "mirrorlist"} == ctx.report.changes.keys()
    assert "baseurl" not in file.read_text()
    assert "gpgkey=https://x/key" in file.read_text()
    assert (await run(rpm, "pkgrepo.managed", "lab", family="RedHat", disabled=True))[0]
    with pytest.raises(HoldfastError, match="set baseurl, mirrorlist or metalink"):
        await run(rpm, "pkgrepo.managed", "none", family="Suse")
    await run(rpm, "pkgrepo.absent", "lab", family="Suse")
    assert not file.exists()


async def test_what_was_there_before(apt, run, tmp_path):
    """The declaration restores the entry, or its absence."""
    cls = registry.find("pkgrepo.managed")
    ctx = FakeContext(tmp_path, facts={"os_family": "Debian"}, interfaces={"pkg": apt})
    declared = cls.declare(LINE, architectures=["amd64"])
    assert await declared.inverse(ctx) == ("pkgrepo.absent", {"name": LINE}, "")
    before = f"# deb [lang=none] {LINE[4:]} extra\n"
    apt.write(LIST, before)
    kind, arguments, _ = await declared.inverse(ctx)
    await run(apt, "pkgrepo.managed", LINE)
    assert apt.read(LIST) == f"{LINE}\n"
    await run(apt, kind, **arguments)
    assert apt.read(LIST) == before


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("deb nonsense", {}, "is not an entry of apt"),
        ("deb [x] http://x", {}, "is not an entry of apt"),
        (f"{LINE}\ndeb http://evil.example.org x y", {}, "one line"),
        (LINE, {"enabled": True, "disabled": False}, "exclude each other"),
        (LINE, {"key_url": "https://x", "key_text": KEY}, "exclude each other"),
        (LINE, {"key_hash": "0" * 64}, "set key_url, too"),
        (LINE, {"keyid": FINGERPRINT}, "needs keyserver"),
        (LINE, {"keyid": "--homedir", "keyserver": "x"}, "is not the id of a key"),
        (LINE, {"keyid": FINGERPRINT, "keyserver": "-x"}, "is not the name of a server"),
        (LINE, {"key_url": "http://x/key", "allow_insecure_key": False}, "is not protected"),
        (LINE, {"keyid": "835CD4F3", "keyserver": "hkp://x", "allow_insecure_key": False}, "proves nothing"),
        (LINE, {"comps": ["main", "x y"]}, "is not a word"),
        (LINE, {"dist": "-x"}, "is not a suite"),
        (LINE, {"ppa": "toys"}, "is not a PPA"),
    ],
)
def test_wrong_arguments(name, given, told):
    """Wrong arguments are errors with a hint, before anything runs."""
    with pytest.raises(ValidationError, match=told):
        registry.find("pkgrepo.managed").declare(name, **given)


def test_two_states_of_one_repository():
    """Different components contradict each other; equal declarations do not."""
    cls = registry.find("pkgrepo.managed")
    one, other = cls.declare(LINE), cls.declare(f"{LINE} extra")
    assert set(one.uids()) & set(other.uids())
    assert one.contradicts(other) == "components differ"
    assert one.contradicts(cls.declare(LINE.replace("stable", "stable"))) is None
    assert not set(one.uids()) & set(cls.declare(LINE.replace("main", "extra")).uids())


WORDS = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)


@given(
    st.builds(
        dict,
        Types=st.sampled_from(["deb", "deb-src"]),
        URIs=WORDS.map("https://{}/".format),
        Suites=WORDS,
        Components=st.lists(WORDS, min_size=1).map(" ".join),
        Architectures=st.lists(WORDS, min_size=1).map(" ".join),
    )
)
def test_a_line_round_trip(fields):
    """A written line is read as the same fields."""
    assert fields_of_line(line_of(fields)) == fields
    assert fields_of_line(line_of(fields | {"Enabled": "no"})) == fields | {"Enabled": "no"}
