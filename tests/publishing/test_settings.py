"""The settings of the broker: which are refused, with which message, and at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.publishing.mqtt_settings import BrokerUrl


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("mqtt://broker", BrokerUrl("broker", 1883, encrypted=False)),
        ("mqtts://broker.example.org/", BrokerUrl("broker.example.org", 8883, encrypted=True)),
        ("mqtts://10.0.0.1:1", BrokerUrl("10.0.0.1", 1, encrypted=True)),
        ("mqtt://[::1]:65535", BrokerUrl("::1", 65535, encrypted=False)),
    ],
)
def test_a_url_has_a_port_of_its_own_or_that_of_its_scheme(text, url):
    """The default ports are the usual ones of brokers."""
    assert BrokerUrl.of(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "broker", "http://broker", "mqtt://", "mqtt://broker:0", "mqtt://broker:65536", "mqtt://broker/topic",
     "mqtt://a b", "mqtt://a\nb", "mqtt://[::1", "mqtts://broker:x", "mqtt://broker?x=1"],
)  # fmt: skip
def test_other_urls_are_refused_with_an_example(loaded, text):
    """Nothing in a URL is ignored."""
    (problem,) = loaded(f"id: web1\nmqtt:\n  url: {text!r}\n".replace("\\n", "\n"))
    assert "the setting 'mqtt.url' is wrong: write mqtts://HOST or mqtt://HOST" in problem


def test_a_password_in_the_url_is_refused_and_not_shown(loaded):
    """The settings are readable for everybody, and so is the message."""
    (problem,) = loaded("mqtt:\n  url: mqtts://agent:hunter22@broker\n")
    assert problem.startswith("2: the setting 'mqtt.url' is wrong: the URL contains a user or a password: write `user`")
    assert "hunter22" not in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("url: mqtts://b\n  password_file: p", "a password needs a `user`"),
        ("url: mqtt://b\n  user: u\n  password_file: p", "the password would cross the network unencrypted"),
        ("url: mqtts://b\n  key: k", "a key needs a `cert`"),
        ("url: mqtt://b\n  ca: c", "certificates are for a URL with mqtts"),
        ("url: mqtt://b\n  cert: c", "certificates are for a URL with mqtts"),
        ("url: mqtts://b\n  user: ''", "the name of a user has 1 to 1000 characters"),
        ("url: mqtts://b\n  prefix: a/+/b", "cannot be a part of a topic: it has '+'"),
        ("url: mqtts://b\n  prefix: /a", "cannot be a part of a topic: it must have 1 to 256 bytes"),
        ("url: mqtts://b\n  prefix: $SYS", "names that begin with '$' are the broker's own"),
    ],
)
def test_what_does_not_fit_together_is_refused_at_its_line(loaded, text, problem):
    """The error has the reason."""
    (found,) = loaded(f"mqtt:\n  {text}\n")
    assert found.startswith(f"{text.count(chr(10)) + 2}: the setting 'mqtt.")
    assert problem in found


@pytest.mark.parametrize("url", ["mqtt://localhost", "mqtt://127.0.0.1:1", "mqtt://[::1]"])
def test_a_password_may_go_to_a_broker_of_this_host_unencrypted(loaded, url):
    """It crosses no network."""
    assert loaded(f"mqtt: {{url: '{url}', user: u, password_file: p}}\n").mqtt.url == url


@pytest.mark.parametrize("host", ["127.example.org", "localhost.example.org", "127.0.0.1.example.org", "10.0.0.1"])
def test_another_host_is_not_taken_for_this_one(loaded, host):
    """The name of the other host may begin with that of this one."""
    (problem,) = loaded(f"mqtt: {{url: 'mqtt://{host}', user: u, password_file: p}}\n")
    assert "the password would cross the network unencrypted" in problem


def test_a_name_of_the_host_that_cannot_be_part_of_a_topic_is_refused_at_its_line(loaded):
    """Only if there is a broker: files may be managed under any name."""
    (problem,) = loaded("states: s\nid: web/1\nmqtt: {url: mqtts://b}\n")
    assert problem == (
        "2: the setting 'id' is wrong: 'web/1' cannot be a part of a topic: it has '/'; it is a part of the topics of "
        "messages, because `mqtt` has a `url`"
    )
    assert loaded("id: web/1\n").id == "web/1"


def test_paths_are_relative_to_the_settings(loaded, tmp_path):
    """Paths are relative as in all other settings."""
    found = loaded("mqtt: {url: mqtts://b, user: u, password_file: p, ca: c, cert: d/e, key: /f}\n").mqtt
    assert (found.password_file, found.ca) == (tmp_path / "p", tmp_path / "c")
    assert (found.cert, found.key) == (tmp_path / "d/e", Path("/f"))
