"""Known hosts: the lines of a host, notations of fingerprints, and refused arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import Final
from holdfast.resources.kinds._known_hosts import address, fingerprint, hashed, is_name, keys_of, parsed_fingerprint
from holdfast.resources.testing import FakeContext

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIB3sXPLuOc7KKPTqVI4ewBaDIM1bBYNWnsLGST047Hn1"
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1GsOkTOx0n5c1kcXGB9SSm6bNR1EvBL4VtT2zCZqg7"


def declare(kind="present", name="git.example.org", **arguments):
    """Return a resource of the family."""
    return registry.find(f"ssh_known_hosts.{kind}").declare(name, **arguments)


def test_a_hash_hides_the_name_and_is_another_one_each_time():
    """Only the name itself matches the hash."""
    one, two = hashed("a.example"), hashed("a.example")
    assert one != two
    assert "example" not in one
    assert is_name(one, "a.example")
    assert not is_name(one, "b.example")
    assert not is_name("|1|====|x", "a.example")
    assert not is_name("*.example", "a.example")
    assert address("A.example", 22) == "a.example"
    assert address("::1", 2222) == "[::1]:2222"


@pytest.mark.parametrize("hashing", ["md5", "sha1", "sha256", "sha512"])
def test_each_notation_of_a_fingerprint_is_understood(hashing):
    """Hexadecimal digits with and without colons; `SHA256:` with base64 without padding."""
    digits = fingerprint(KEY, hashing)
    assert parsed_fingerprint(digits) == (hashing, digits)
    assert parsed_fingerprint(digits.replace(":", "").upper()) == (hashing, digits)
    assert parsed_fingerprint(f"{hashing.upper()}:{digits}") == (hashing, digits)


def test_the_fingerprint_of_openssh():
    """The fingerprint equals the output of `ssh-keygen -lf` for this key."""
    told = "SHA256:/yG1hJINcb0siaV6CrHpwJApCRiMKckXtalw55x07EA"
    assert parsed_fingerprint(told) == ("sha256", fingerprint(KEY, "sha256"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"fingerprint": "aa:bb"}, "is not a fingerprint"),
        ({"fingerprint": "SHA256:not base64!"}, "is not a fingerprint"),
        ({"fingerprint": "MD5:" + "aa" * 32}, "is not a fingerprint"),
        ({"fingerprint": "aa" * 16, "fingerprint_hash_type": "sha256"}, "has 32 bytes"),
        ({"name": "-oProxyCommand=x"}, "name or the address of one host"),
        ({"name": "a,b"}, "name or the address of one host"),
        ({"name": "*.example"}, "name or the address of one host"),
        ({"name": "a\nb"}, "name or the address of one host"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"config": ".ssh/known_hosts"}, "must be an absolute path"),
        ({"key": "two words of text"}, None),
        ({"key": "b!d"}, "must be a public key"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, told):
    """The error has the line of the argument."""
    if told is None:
        assert declare(**arguments)
        return
    with pytest.raises(ValidationError, match=told):
        declare(**arguments)


async def test_a_key_must_have_the_fingerprint_that_is_declared_beside_it(tmp_path):
    """In this case, the host is not asked for its key."""
    file = tmp_path / "hosts"
    entry = declare(key=KEY, fingerprint=fingerprint(KEY, "md5"), hash_known_hosts=False, config=str(file))
    assert not await entry.check_apply(FakeContext(tmp_path), True)
    assert file.read_text() == f"git.example.org ssh-ed25519 {KEY}\n"
    assert await entry.check_apply(FakeContext(tmp_path), True)
    with pytest.raises(Final, match="the declared key does not have the declared fingerprint"):
        await declare(key=OTHER, fingerprint=fingerprint(KEY, "md5"), config=str(file)).check_apply(
            FakeContext(tmp_path), True
        )


async def test_the_inverse_is_the_present_key(tmp_path):
    """The inverse has the present key, or declares that there is none. No single state describes several keys."""
    file = tmp_path / "hosts"
    entry = declare(key=KEY, config=str(file))
    assert (await entry.inverse(FakeContext(tmp_path))).kind == "ssh_known_hosts.absent"
    file.write_text(f"git.example.org ssh-ed25519 {OTHER}\n")
    before = (await entry.inverse(FakeContext(tmp_path))).arguments
    assert (before["key"], before["hash_known_hosts"]) == (OTHER, False)
    file.write_text(f"git.example.org ssh-ed25519 {OTHER}\ngit.example.org ssh-ed25519 {KEY}\n")
    assert await entry.inverse(FakeContext(tmp_path)) is None


def test_a_nul_character_does_not_hide_a_key():
    """For ssh and for Holdfast, a line ends at a NUL character."""
    text = f"git.example.org ssh-ed25519 {OTHER}\0x\n"
    assert [each.key for each in keys_of(text, "git.example.org")] == [OTHER]
    assert declare("absent").edited(text) == ""


TEXT = st.lists(
    st.one_of(
        st.text(alphabet="ab |#@,*\t\ré\udcff"),
        st.sampled_from(
            [
                f"git.example.org,b ssh-ed25519 {KEY} c",
                f"{hashed('git.example.org')} ssh-ed25519 {OTHER}",
                f"a ssh-rsa {KEY}",
            ]
        ),
    )
).map("\n".join)


@given(TEXT)
def test_an_edit_keeps_all_other_lines_and_is_right_at_once(text):
    """Lines of other hosts, comments and broken lines keep each byte."""
    for entry, left in ((declare(key=f"ssh-ed25519 {KEY}"), [KEY]), (declare("absent"), [])):
        new = entry.edited(text)
        foreign = [line for line in text.split("\n") if line and not [*keys_of(line, "git.example.org")]]
        assert [line for line in foreign if line not in new.split("\n")] == []
        assert list(dict.fromkeys(each.key for each in keys_of(new, "git.example.org"))) == left
        assert entry.edited(new) == new
        assert entry.read(new) is None or entry.read(new)["others"] == []
