"""When there is a connection, with which name, and what health says about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

import mosquitto
from certificates import make_certificates
from holdfast.agent.northbound.drivers.sqlite_tables import Bounds
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.publishing import session
from holdfast.agent.publishing.messages import LOGGED, MOST, VERSION
from holdfast.agent.publishing.mqtt_settings import MqttSettings
from holdfast.agent.publishing.publishing import UNAVAILABLE
from mqtt_listener import Listener, until
from publishing_bench import caught_up, change, publishing, told

DOC = (Path(__file__).parents[2] / "docs/mqtt.md").read_text()


def presence(listener: Listener) -> list[tuple[str, str]]:
    """Return the hosts that published their presence, with the values."""
    return [(each["host"], each["state"]) for each in listener.of("presence")]


async def test_other_settings_apply_at_once(desk, broker, prefix, heard):
    """The broker says that the agent is gone from where it was."""
    async with publishing(desk, broker.port, prefix) as published:
        await heard.until(lambda: presence(heard) == [("web1", "online")])
        settings = MqttSettings(url=f"mqtt://127.0.0.1:{broker.port}", prefix=f"{prefix}/below")
        await published.use(settings, "web1")
        await heard.until(lambda: presence(heard)[1:] == [("web1", "offline"), ("web1", "online")])
        await published.use(settings, "web2")
        await heard.until(lambda: presence(heard)[3:] == [("web1", "offline"), ("web2", "online")])
        await change(desk)
        await caught_up(desk)
        await published.use(MqttSettings(), "web2")
        await heard.until(lambda: presence(heard)[5:] == [("web2", "offline")])
    assert [each.topic for each in heard.heard if each.topic.endswith("/presence")] == [
        f"{prefix}/web1/presence", f"{prefix}/web1/presence", f"{prefix}/below/web1/presence",
        f"{prefix}/below/web1/presence", f"{prefix}/below/web2/presence", f"{prefix}/below/web2/presence",
    ]  # fmt: skip
    assert heard.of("changes")[0]["host"] == "web2"


async def test_equal_settings_keep_the_connection(desk, broker, prefix, heard):
    """Each reload applies them."""
    async with publishing(desk, broker.port, prefix) as published:
        await heard.until(lambda: heard.of("gap"))
        await published.use(MqttSettings(url=f"mqtt://127.0.0.1:{broker.port}", prefix=prefix), "web1")
        await change(desk)
        await heard.until(lambda: heard.of("changes"))
        assert presence(heard) == [("web1", "online")]


async def test_a_host_whose_name_is_no_part_of_a_topic_is_told(desk, broker, prefix):
    """The settings name none, and the system has a strange one. Another name helps at once."""
    async with publishing(desk, broker.port, prefix) as published:
        settings = MqttSettings(url=f"mqtt://127.0.0.1:{broker.port}", prefix=prefix)
        await published.use(settings, "web/1")
        assert told(desk) == {
            UNAVAILABLE: "cannot publish messages: the name of this host does not fit: 'web/1' cannot be a "
            "part of a topic: it has '/'; set `id` in agent.yaml"
        }
        await published.use(settings, "web1")
        assert not told(desk)


async def test_a_broker_that_is_away_is_told_until_it_is_there(desk, own_broker):
    """The agent starts without it."""
    own_broker.kill()
    async with publishing(desk, own_broker.port):
        await until(lambda: told(desk))
        url = f"mqtt://127.0.0.1:{own_broker.port}"
        assert told(desk) == {UNAVAILABLE: f"cannot publish messages: the broker {url}: Connection refused"}
        own_broker.start()
        await until(lambda: not told(desk))
    assert not told(desk)


async def test_tls_a_password_and_a_client_certificate(desk, tmp_path):
    """The test uses all of them with a real broker. Each wrong one is reported."""
    at = make_certificates(tmp_path)
    mosquitto.write_password(at / "passwords", "agent", "hunter22")
    (at / "passwords").chmod(0o644)
    (at / "password").write_text("hunter22\n")
    for path in at.iterdir():
        path.chmod(0o644 if path.name == "passwords" else 0o600)
    strict = (f"cafile {at}/ca.pem", f"certfile {at}/own.pem", f"keyfile {at}/own.key", "allow_anonymous false",
              f"password_file {at}/passwords", "require_certificate true")  # fmt: skip
    right = {"user": "agent", "password_file": at / "password", "ca": at / "ca.pem", "cert": at / "own.pem",
             "key": at / "own.key"}  # fmt: skip
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ca": at / "other.pem"}, "its certificate is not accepted: "),
        ({"user": "other"}, "it refuses the connection: Not authorized"),
        ({"cert": None, "key": None}, "it closes the connection without an answer|TLS fails|lost|reset"),
        ({"password_file": at / "missing"}, f"cannot read {at}/missing: No such file or directory"),
    ]
    with mosquitto.Mosquitto(strict) as broker:
        url = f"mqtts://127.0.0.1:{broker.port}"
        async with publishing(desk, broker.port, **right, url=url):
            await change(desk)
            await caught_up(desk)
            assert not told(desk)
        for settings, trouble in wrong:
            async with publishing(desk, broker.port, **{**right, **settings}, url=url):
                await until(lambda: told(desk))
                assert re.search(trouble, told(desk)[UNAVAILABLE])
                assert "hunter22" not in told(desk)[UNAVAILABLE]


async def test_a_store_that_cannot_be_opened_is_tried_again(desk, broker, prefix, heard, monkeypatch):
    """The agent is online all the same. Health reports the problem of the records."""
    monkeypatch.setattr(session, "RETRY", 0.01)
    api, failures = desk.records.api, []

    async def fails():
        if len(failures) < 3:
            failures.append(1)
            raise Unavailable("the file is locked")
        return await api()

    monkeypatch.setattr(desk.records, "api", fails)
    async with publishing(desk, broker.port, prefix):
        await heard.until(lambda: heard.of("gap"))
    assert presence(heard)[0] == ("web1", "online")
    assert not told(desk)


async def test_a_bug_is_told_as_a_task_that_has_died(desk, broker, prefix, heard, monkeypatch):
    """Publishing must not end silently. The report ends when the settings name no broker any more."""

    async def fails():
        raise RuntimeError("a bug")

    monkeypatch.setattr(desk.records, "api", fails)
    async with publishing(desk, broker.port, prefix):
        await heard.until(lambda: told(desk))
        assert "task-died:publishing" in told(desk)
    assert not told(desk)


def test_the_documented_settings_are_settings():
    """Those of docs/mqtt.md."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)
    documented = yaml.safe_load(block)["mqtt"]
    MqttSettings(**documented)
    assert {*documented, "prefix"} == set(MqttSettings.model_fields)


def test_the_documented_topics_and_bounds_are_those_of_the_code():
    """Subscribers rely on them."""
    topics = re.findall(r"^\| `(\S+)` \|", DOC, re.MULTILINE)
    assert set(topics) == {"presence", "conditions", "gap", *LOGGED.values()}
    assert f"the version of this format, now {VERSION}" in DOC
    assert f"than {MOST // 1000} 000 bytes" in DOC
    assert Bounds() == (20_000, 32 << 20, 7 * 86_400)
    assert "seven days, 20 000 writes or 32 MiB" in " ".join(DOC.split())
