"""A plugin that no agent has started: it listens at a TCP address, for agents whose certificates it demands.

It reads its configuration from a file of its own, because several agents may use it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
import yaml
from grpc import aio

from holdfast.agent.plugins.messages import READY
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.server import GRACE, Handlers, new_server
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.plugins.stub import Configure, Function, Operations
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError, Permanent


def run(schema: str, operations: Iterable[Operations[Any] | Function[Any, Any]], configure: Configure | None) -> None:
    """Serve as the arguments of the process say, until SIGTERM or SIGINT."""
    if len(sys.argv) == 1:
        sys.exit("this is a plugin of Holdfast: name it under `plugins` in agent.yaml, and the agent starts it")
    wanted = _arguments().parse_args()
    try:
        asyncio.run(serve(Servicer(schema, operations), wanted, configure))
    except (HoldfastError, InvalidPayload, OSError) as error:
        sys.exit(str(error))


def _arguments() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser(description="A plugin of Holdfast, for agents that reach it over the network.")
    known.add_argument("--listen", required=True, metavar="HOST:PORT", help="address at which to listen")
    known.add_argument("--certificate", required=True, type=Path, metavar="FILE", help="its certificate (PEM)")
    known.add_argument("--key", required=True, type=Path, metavar="FILE", help="its private key (PEM)")
    known.add_argument(
        "--authority", required=True, type=Path, metavar="FILE", help="certificates that sign those of agents (PEM)"
    )
    known.add_argument("--config", type=Path, metavar="FILE", help="configuration (YAML)")
    return known


async def serve(servicer: Servicer, wanted: argparse.Namespace, configure: Configure | None) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises `Permanent` and `InvalidPayload` for files and values that cannot be used.
    """
    record = servicer.schema.config
    secret = record is not None and any(each.secret for each in record.fields)
    values = Payloads(servicer.schema, os.environ).config_given(_config(wanted.config, secret=secret))
    servicer.hide(values)
    if configure is not None:
        await configure(values)
    server = new_server()
    server.add_generic_rpc_handlers([Handlers(servicer, "")])
    address = f"{wanted.listen.rpartition(':')[0]}:{_port(server, wanted)}"
    await server.start()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    sys.stdout.write(f"{READY} at {address}\n")
    sys.stdout.flush()
    await ended.wait()
    await server.stop(GRACE)


def _port(server: aio.Server, wanted: argparse.Namespace) -> int:
    """Listen, and return the port."""
    key, certificate = _read(wanted.key, secret=True), _read(wanted.certificate)
    proof = grpc.ssl_server_credentials([(key, certificate)], _read(wanted.authority), require_client_auth=True)
    try:
        port = server.add_secure_port(wanted.listen, proof)
    except RuntimeError:
        port = 0
    if not port:
        raise Permanent(f"cannot listen at {wanted.listen}: the address is wrong or in use, or the key is not its own")
    return port


def _config(path: Path | None, *, secret: bool) -> Any:
    if path is None:
        return {}
    try:
        return yaml.safe_load(_read(path, secret=secret)) or {}
    except (yaml.YAMLError, RecursionError) as error:
        raise Permanent(f"cannot read {path}: {error}") from None


def _read(path: Path, *, secret: bool = False) -> bytes:
    """Return the content of a file that only trusted users can write."""
    try:
        return paths.read_trusted(str(path.absolute()), secret=secret)
    except OSError as error:
        raise Permanent(f"cannot read {path}: {error.strerror or error}") from None
