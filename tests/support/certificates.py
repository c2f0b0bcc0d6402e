"""Certificates for servers on loopback, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificates(directory: Path) -> Path:
    """Make two authorities (`ca`, `other`), and a certificate of the first for loopback (`own`)."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    for name in ("ca", "other"):
        run("req", "-x509", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    run("req", *key, "-subj", "/CN=member", "-keyout", "own.key", "-out", "own.csr")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    run("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", "names", "-out", "own.pem")  # fmt: skip
    return directory
