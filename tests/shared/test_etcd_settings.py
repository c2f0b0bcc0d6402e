"""The settings of etcd: which are refused, with which message, and at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.shared.etcd_settings import Endpoint


@pytest.mark.parametrize(
    ("text", "address", "encrypted"),
    [
        ("http://etcd1", "etcd1:2379", False),
        ("https://etcd1.example.org/", "etcd1.example.org:2379", True),
        ("https://10.0.0.1:1", "10.0.0.1:1", True),
        ("http://[::1]:65535", "[::1]:65535", False),
    ],
)
def test_an_endpoint_has_a_port_of_its_own_or_that_of_etcd(text, address, encrypted):
    """The default port is that of etcdctl."""
    assert (Endpoint.of(text).address, Endpoint.of(text).encrypted) == (address, encrypted)


@pytest.mark.parametrize(
    "text",
    ["", "etcd1", "etcd1:2379", "mqtt://etcd1", "http://", "http://e:0", "http://e:65536", "http://e/v3", "http://a b",
     "http://[::1", "https://e:x", "https://e?x=1"],
)  # fmt: skip
def test_other_urls_are_refused_with_an_example(loaded, text):
    """Nothing in a URL is ignored."""
    (problem,) = loaded(f"id: web1\netcd:\n  endpoints: [{text!r}]\n")
    assert problem.startswith("3: the setting 'etcd.endpoints' is wrong: write https://HOST or http://HOST")


def test_a_password_in_the_url_is_refused_and_not_shown(loaded):
    """The settings are readable for everybody, and so is the message."""
    (problem,) = loaded("etcd:\n  endpoints: ['https://agent:hunter22@etcd1']\n")
    assert "the URL contains a user or a password: write `user` and `password_file`" in problem
    assert "hunter22" not in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("endpoints: [https://a, http://b]\n  ca: c", "some members use https and some http"),
        ("endpoints: [http://a, http://a:2379]", "a member is named twice"),
        ("endpoints: [https://a]\n  ca: c\n  password_file: p", "a password needs a `user`"),
        ("endpoints: [http://a]\n  user: u\n  password_file: p", "the password would cross the network unencrypted"),
        ("endpoints: [https://a]\n  ca: c\n  key: k", "a key needs a `cert`"),
        ("endpoints: [http://a]\n  ca: c", "certificates are for endpoints with https"),
        ("endpoints: [http://a]\n  cert: c", "certificates are for endpoints with https"),
        ("endpoints: [https://a]", "endpoints with https need the certificates of the authority"),
        ("endpoints: [http://a]\n  user: ''", "the name of a user has 1 to 1000 characters"),
        ("endpoints: [http://a]\n  prefix: holdfast", "a prefix begins and ends with '/'"),
        ("endpoints: [http://a]\n  prefix: /", "a prefix begins and ends with '/'"),
        ("endpoints: [http://a]\n  prefix: /a//", "a prefix begins and ends with '/'"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_its_group(loaded, text, problem):
    """The error has the reason."""
    (found,) = loaded(f"etcd:\n  {text}\n")
    assert "the setting 'etcd." in found
    assert problem in found


def test_a_password_may_go_to_a_member_on_this_host_unencrypted(loaded):
    """It crosses no network; with one member elsewhere, it would."""
    assert loaded("etcd: {endpoints: ['http://127.0.0.1:1', 'http://[::1]'], user: u, password_file: p}\n").etcd.user
    (problem,) = loaded("etcd: {endpoints: ['http://127.0.0.1:1', 'http://10.0.0.1'], user: u, password_file: p}\n")
    assert "the password would cross the network unencrypted" in problem


def test_paths_are_relative_to_the_settings(loaded, tmp_path):
    """Paths are relative as in all other settings."""
    found = loaded("etcd: {endpoints: ['https://a'], user: u, password_file: p, ca: c, cert: d/e, key: /f}\n").etcd
    assert (found.password_file, found.ca) == (tmp_path / "p", tmp_path / "c")
    assert (found.cert, found.key) == (tmp_path / "d/e", Path("/f"))
