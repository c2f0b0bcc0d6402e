"""A client of the YAML language server, over its standard input and output."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SERVER = ROOT / ".venv-node/node_modules/yaml-language-server/bin/yaml-language-server"
"""Where `scripts/environment` installs the language server."""
TIMEOUT = 60
"""Seconds after which a server that hangs is killed."""


@contextmanager
def serving(schemas: Mapping[Path, Sequence[str]]) -> Iterator[Client]:
    """Run a server that checks files by these schemas: path of the schema -> globs of the files.

    Skips the test if the server is not installed; on CI the test fails.
    """
    node = shutil.which("node")
    if node is None or not SERVER.exists():
        missing = "node is not installed" if node is None else f"{SERVER} is missing"
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"no language server: {missing}; scripts/test installs it")
    command = ["timeout", str(TIMEOUT), str(node), str(SERVER), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            client = Client(
                process,
                {"yamlVersion": "1.1", "schemas": {path.as_uri(): list(globs) for path, globs in schemas.items()}},
            )
            client.begin()
            yield client
        finally:
            process.terminate()


class Client:
    """An editor with files that exist only in its memory."""

    def __init__(self, process: subprocess.Popen[bytes], settings: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        self._settings = {"yaml": {**settings, "validate": True, "completion": True, "hover": True}}
        self._last = 0

    def begin(self) -> None:
        """Initialise the connection."""
        capabilities = {"workspace": {"configuration": True}}
        self._ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        self._send({"method": "initialized", "params": {}})
        self._send({"method": "workspace/didChangeConfiguration", "params": {"settings": self._settings}})

    def problems(self, uri: str, text: str) -> list[tuple[int, str]]:
        """Open a file; return line (from 0) and message of each problem."""
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while True:
            message = self._receive()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                found = message["params"]["diagnostics"]
                return [(each["range"]["start"]["line"], each["message"]) for each in found]

    def completions(self, uri: str, line: int, column: int) -> list[str]:
        """Return the completions that the server offers at a position of an open file."""
        answer = self._ask("textDocument/completion", _place(uri, line, column))
        return [item["label"] for item in answer["items"]]

    def hover(self, uri: str, line: int, column: int) -> str:
        """Return the text that the server shows for a position of an open file."""
        return str(self._ask("textDocument/hover", _place(uri, line, column))["contents"])

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._last and "method" not in message:
                return message["result"]

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._to.flush()

    def _receive(self) -> dict[str, Any]:
        """Return the next message, after answering it if it is a request of the server."""
        length = 0
        while header := self._from.readline().strip():
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        message: dict[str, Any] = json.loads(self._from.read(length))
        if "id" in message and "method" in message:
            items = message["params"]["items"] if message["method"] == "workspace/configuration" else []
            settings = [self._settings.get(item.get("section", ""), {}) for item in items]
            self._send({"id": message["id"], "result": settings or None})
        return message


def _place(uri: str, line: int, column: int) -> dict[str, Any]:
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}
