"""The OpenAPI document, against the models and against the running server."""

from __future__ import annotations

import os
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.serve import openapi
from serving import Serving


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a model."""
    found: dict[str, Any] = openapi.document()["components"]["schemas"][name]
    return found


def test_every_table_that_users_are_shown_is_described() -> None:
    """Each table has two paths."""
    paths = set(openapi.document()["paths"])
    tables = set(openapi.tables())

    assert {"hosts", "passes", "changes", "resources", "conditions", "notes"} <= tables
    assert not tables & {"counters", "resource_changes"}
    assert paths == {f"/v1/{table}{rest}" for table in tables for rest in ("", "/{id}")} | {
        "/v1/watch",
        "/v1/openapi.json",
    }


def test_private_fields_are_not_described_and_others_are_required() -> None:
    """A field that only some records show is not required."""
    change, host, actor = schema("Change"), schema("Host"), schema("Actor")

    assert "facts" not in host["properties"]
    assert "command" not in actor["properties"]
    assert change["properties"].keys() - set(change["required"]) >= {"comment", "changes", "diff"}
    assert "description" in change["properties"]["origin"] or "enum" in change["properties"]["origin"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an agent and serve as another user")
def test_the_server_does_what_the_document_says(server: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemathesis makes requests from the document, valid and not, and compares each response.

    It takes some seconds: each path gets some dozen requests, and a stream lasts for one.
    """
    schemathesis = pytest.importorskip("schemathesis", reason="the development group has it")
    monkeypatch.setattr("urllib3.connectionpool.HTTPConnectionPool.ConnectionCls", connection_to(server))
    document = server.get("/v1/openapi.json").json
    for each in document["paths"]["/v1/watch"]["get"]["parameters"]:  # a stream that ends soon
        if each["name"] == "timeout":
            each["schema"]["maximum"], each["required"] = 1, True
    statuses: set[int] = set()
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = found.ok()
        stream = operation.path == "/v1/watch"
        examine(operation, "POSITIVE", 2 if stream else 6, statuses)
        if not stream and operation.path != "/v1/openapi.json":  # which has no parameters
            examine(operation, "NEGATIVE", 6, statuses)

    assert statuses in ({200, 400, 404, 405}, {200, 400, 404})


def connection_to(server: Serving) -> type:
    """Return the class of connections of urllib3 that lead to the socket of a server."""
    from urllib3.connection import HTTPConnection

    class Connection(HTTPConnection):
        """Connects to the socket."""

        def connect(self) -> None:
            """Connect."""
            self.sock = server.connected()

    return Connection


def examine(operation: Any, mode: str, examples: int, statuses: set[int]) -> None:
    """Send requests for one operation, and check the responses."""
    from hypothesis import HealthCheck, given, settings
    from schemathesis import GenerationMode

    @given(case=operation.as_strategy(generation_mode=GenerationMode[mode]))
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def run(case: Any) -> None:
        response = case.call(base_url="http://holdfast.invalid", timeout=DEADLINE)
        statuses.add(response.status_code)
        case.validate_response(response)

    run()
