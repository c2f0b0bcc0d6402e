"""The password and the certificates: who may read and write their files, and what must be in them."""

from __future__ import annotations

import os
import ssl
import subprocess
from pathlib import Path

import pytest

from certificates import make_certificates
from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.northbound.pubsub.mqtt_session import Broker
from holdfast.agent.publishing.broker import make_broker
from holdfast.agent.publishing.mqtt_settings import MqttSettings


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with certificates and keys, which only root can read."""
    directory = make_certificates(tmp_path_factory.mktemp("pem"))
    for path in directory.iterdir():
        path.chmod(0o600)
    return directory


@pytest.fixture
def password(tmp_path: Path) -> Path:
    """A file with a password."""
    path = tmp_path / "password"
    path.write_text("hunter22\r\nignored\n")
    path.chmod(0o640)
    return path


def made(**settings: object) -> Broker:
    """Return how to reach a broker."""
    return make_broker(MqttSettings(**{"url": "mqtts://broker", **settings}), "web1")


def test_all_settings_are_used(pem, password):
    """The name of the session is that of the host: a second agent with this name is noticed."""
    broker = made(
        user="agent", password_file=password, ca=pem / "ca.pem", cert=pem / "own.pem", key=pem / "own.key", prefix="a/b"
    )
    assert (broker.host, broker.port, broker.identifier) == ("broker", 8883, "a-b-web1")
    assert (broker.user, broker.password) == ("agent", "hunter22")
    assert broker.tls.verify_mode == ssl.CERT_REQUIRED
    assert broker.tls.check_hostname
    assert len(broker.tls.get_ca_certs()) == 1
    assert "hunter22" not in repr(broker)
    assert str(broker) == "mqtts://broker:8883"


def test_without_settings_the_authorities_are_those_of_the_system():
    """A URL without encryption has no authorities."""
    system = ssl.create_default_context()
    assert made().tls.cert_store_stats() == system.cert_store_stats()
    assert made(url="mqtt://broker").tls is None


def test_a_certificate_and_its_key_may_be_one_file(pem, tmp_path):
    """Its content is a secret then."""
    both = tmp_path / "both.pem"
    both.write_bytes((pem / "own.pem").read_bytes() + (pem / "own.key").read_bytes())
    both.chmod(0o600)
    assert made(cert=both).tls
    both.chmod(0o644)
    with pytest.raises(Unavailable, match="everybody can read it; chmod o= "):
        made(cert=both)


@pytest.mark.parametrize("name", ["password_file", "key"])
def test_a_secret_that_everybody_can_read_is_refused(pem, tmp_path, name):
    """Its group may read it, as is usual for keys."""
    path = tmp_path / "secret"
    path.write_bytes((pem / "own.key").read_bytes())
    settings = {"cert": pem / "own.pem", "key": pem / "own.key", "user": "u", name: path}
    path.chmod(0o640)
    made(**settings)
    path.chmod(0o644)
    with pytest.raises(Unavailable, match=f"cannot use the secret in {path}: everybody can read it; chmod o= {path}"):
        made(**settings)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("name", ["password_file", "ca", "cert", "key"])
def test_a_file_that_another_user_can_write_is_refused(pem, tmp_path, name):
    """The user could choose to which broker the agent talks, and as whom."""
    path = tmp_path / "file"
    path.write_bytes((pem / {"ca": "ca.pem", "cert": "own.pem"}.get(name, "own.key")).read_bytes())
    path.chmod(0o600)
    settings = {"cert": pem / "own.pem", "key": pem / "own.key", "user": "u", name: path}
    made(**settings)
    os.chown(path, 65534, 65534)
    with pytest.raises(Unavailable, match=rf"cannot trust {path}: it belongs to .*uid 65534"):
        made(**settings)


def test_a_password_must_be_there(password):
    """The messages name the file, and never its content."""
    for content, problem in (
        (b"\nhunter22\n", "the first line is empty"),
        (b"\xff\xfehunter22", "it is not UTF-8"),
        (b"hunter22" * 10_000, "65537"),
    ):
        password.write_bytes(content)
        with pytest.raises(Unavailable) as raised:
            made(user="u", password_file=password)
        assert str(password) in str(raised.value)
        assert "hunter22" not in str(raised.value)
        assert problem in str(raised.value)
    password.unlink()
    with pytest.raises(Unavailable, match=f"cannot read {password}: No such file or directory"):
        made(user="u", password_file=password)
    password.mkdir()
    with pytest.raises(Unavailable, match=str(password)):
        made(user="u", password_file=password)


@pytest.mark.parametrize("content", [b"", b"nothing", b"\xff", b"-----BEGIN CERTIFICATE-----\nx\n"])
def test_a_file_without_certificates_is_refused(tmp_path, content):
    """An empty list of authorities would accept nobody, with a message that says less."""
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=f"cannot use {path}: it contains no certificates in PEM format"):
        made(ca=path)


def test_a_certificate_that_does_not_fit_its_key_is_refused(pem, tmp_path):
    """A key with a passphrase is refused, too, because no user could type it."""
    with pytest.raises(Unavailable, match=f"the certificate {pem}/own.pem with its key: KEY_VALUES_MISMATCH"):
        made(cert=pem / "own.pem", key=pem / "ca.key")
    with pytest.raises(Unavailable, match="with its key"):
        made(cert=pem / "own.pem", key=pem / "own.pem")
    locked = tmp_path / "locked.key"
    command = ["openssl", "rsa", "-aes256", "-passout", "pass:x", "-in", pem / "own.key", "-out", locked]
    subprocess.run(command, check=True, capture_output=True)
    locked.chmod(0o600)
    with pytest.raises(Unavailable, match="the key has a passphrase"):
        made(cert=pem / "own.pem", key=locked)
