"""The access to the broker: the settings, with the password and the certificates, read again for each connection."""

from __future__ import annotations

from holdfast.agent.credential_files import read_certificates, read_password
from holdfast.agent.northbound.pubsub.mqtt_session import Broker
from holdfast.agent.publishing.mqtt_settings import BrokerUrl, MqttSettings


def make_broker(settings: MqttSettings, host: str) -> Broker:
    """Return the access to the broker of settings that have a URL. Raises `Unavailable`. Blocks."""
    url = BrokerUrl.of(settings.url or "")
    return Broker(
        url.host,
        url.port,
        identifier=f"{settings.prefix.replace('/', '-')}-{host}",
        user=settings.user or "",
        password=read_password(settings.password_file) if settings.password_file else "",
        tls=read_certificates(settings).context if url.encrypted else None,
    )
