"""Reads passwords, certificates and keys from files that the settings name, safely and again for each connection."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from holdfast.agent.northbound.errors import Unavailable
from holdfast.resources import paths
from holdfast.resources.errors import Permanent

LARGEST = 1 << 20
"""Most bytes of a file with certificates."""
LONGEST = 65_535
"""Most bytes of a password, in MQTT."""


class CertificateSettings(Protocol):
    """Settings that name the files."""

    @property
    def ca(self) -> Path | None:
        """Certificates of the authorities that may have signed the server's certificate; None: those of the system."""

    @property
    def cert(self) -> Path | None:
        """The client certificate."""

    @property
    def key(self) -> Path | None:
        """The private key of the certificate; None: in the file of the certificate."""


class Certificates(NamedTuple):
    """The content of such files. `context` has checked it."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None
    context: ssl.SSLContext


def read_certificates(settings: CertificateSettings) -> Certificates:
    """Return the content of the files. Raises `Unavailable`, also if it cannot be used. Blocks."""
    ca = cert = key = None
    if settings.ca is None:
        context = ssl.create_default_context()
    else:
        ca = _read(settings.ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # demands a certificate for the name of the server
        try:
            context.load_verify_locations(cadata=ca.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError):
            raise Unavailable(f"cannot use {settings.ca}: it contains no certificates in PEM format") from None
    if settings.cert is not None:
        cert = _read(settings.cert, secret=settings.key is None)
        key = cert if settings.key is None else _read(settings.key, secret=True)
        try:
            _load(context, cert, key)
        except (ssl.SSLError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise Unavailable(f"cannot use the certificate {settings.cert} with its key: {why}") from None
    return Certificates(ca, cert, key, context)


def read_password(path: Path) -> str:
    """Return the first line of a file that not everybody can read. Raises `Unavailable`. Blocks."""
    try:
        text = _read(path, secret=True, limit=LONGEST + 2).decode().partition("\n")[0].removesuffix("\r")
    except UnicodeDecodeError:
        raise Unavailable(f"cannot use the password in {path}: it is not UTF-8") from None
    if not text:
        raise Unavailable(f"cannot use the password in {path}: the first line is empty")
    return text


def _load(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """Load a certificate and its key.

    OpenSSL only reads files: these are in memory, so exactly the checked content is used.
    """
    with _memory(cert) as cert_file, _memory(key) as key_file:
        context.load_cert_chain(f"/proc/self/fd/{cert_file.fileno()}", f"/proc/self/fd/{key_file.fileno()}", _no_phrase)


def _memory(data: bytes) -> BinaryIO:
    """Return a file in memory."""
    file = os.fdopen(os.memfd_create("pem"), "wb", buffering=0)
    file.write(data)
    return file


def _no_phrase() -> str:
    """Raise `ValueError`: without this OpenSSL would ask the terminal for a passphrase."""
    raise ValueError("the key has a passphrase")


def _read(path: Path, *, secret: bool = False, limit: int = LARGEST) -> bytes:
    """Return the content of a file that only trusted users can write and, if it is secret, not everybody can read."""
    try:
        return paths.read_trusted(str(path), limit, secret=secret)
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror or error}") from None
    except Permanent as error:
        raise Unavailable(str(error)) from None
