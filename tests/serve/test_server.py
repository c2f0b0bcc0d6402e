"""`holdfast serve` beside a real agent: pages, records, events, who may connect, and what no client can do to it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from itertools import islice
from pathlib import Path

import pytest
from tests.serve.conftest import Site

from deadline import DEADLINE
from holdfast.agent.serve import server as module
from holdfast_process import COMMAND, environment, holdfast, in_process
from serving import Serving, answer
from strangers import UID, as_a_stranger
from viewed_agent import GID

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start an agent and serve as another user")


def test_pages_follow_each_other(server: Serving) -> None:
    """`next` is where the following page begins."""
    whole = server.get("/v1/changes").json["records"]
    first = server.get("/v1/changes?limit=2").json
    second = server.get(f"/v1/changes?limit=1000&after={first['next']}").json

    assert len(whole) >= 3
    assert first["records"] + second["records"] == whole
    assert second["next"] is None
    assert server.get("/v1/changes?newest=true").json["records"] == whole[::-1]
    assert server.get(f"/v1/changes?newest=true&before={whole[1]['id']}").json["records"] == [whole[0]]


def test_a_record_is_found_by_its_id(server: Serving) -> None:
    """An identity may contain slashes, which are escaped."""
    failing = server.get("/v1/resources").json["records"]
    found = server.get("/v1/resources/cmd.run%5Bfailing%5D")

    assert found.status == 200
    assert found.headers["content-type"] == "application/json"
    assert failing == [found.json]
    assert server.get("/v1/resources/cmd.run[failing]").json == found.json
    missing = server.get("/v1/resources/file.managed%5B%2Fetc%2Fmotd%5D")
    assert (missing.status, missing.json) == (
        404,
        {"error": "there is no record 'file.managed[/etc/motd]' in resources"},
    )


def test_nothing_that_only_root_may_read_is_served(server: Serving) -> None:
    """No table and no event has private data."""
    tables = [path for path in server.get("/v1/openapi.json").json["paths"] if "{" not in path]
    said = b"".join(server.get(table).body for table in tables if table != "/v1/watch")
    with server.events("/v1/watch", Last_Event_ID="0") as events:
        said += str([*islice(events, 3)]).encode()

    assert len(tables) >= 8
    assert b"first of root" not in said
    assert b"first of everyone" in said


def test_writes_are_told_as_they_happen(site: Site, server: Serving) -> None:
    """After the revision of a page, and again after the last ID that was seen."""
    revision = server.get("/v1/changes").json["revision"]
    with server.events("/v1/watch?table=changes", Last_Event_ID=str(revision)) as events:
        assert next(events) == {"id": str(revision)}
        (site.tree.host / "open").write_text("other")
        change, end = next(events), next(events)

    data = json.loads(change["data"])
    assert change["event"] == "changes"
    assert data["record"]["resource"] == f"file.managed[{site.tree.host}/open]"
    assert data["id"] == data["record"]["id"]
    assert int(end["id"]) > revision
    with server.events("/v1/watch?table=changes", Last_Event_ID=str(revision)) as events:
        assert [next(events) for _ in range(3)][1] == change
    with server.events("/v1/watch?table=changes", Last_Event_ID=end["id"]) as events:
        assert next(events) == {"id": end["id"]}


def test_a_client_that_missed_writes_is_told(server: Serving) -> None:
    """A database that is younger than the revision has another history."""
    with server.events("/v1/watch", Last_Event_ID="9" * 17) as events:
        reset, begin = next(events), next(events)

    assert reset == {"event": "reset", "data": "{}"}
    assert int(begin["id"]) < 10**17


def test_a_stream_ends_after_its_time(server: Serving) -> None:
    """`timeout` is in seconds; the test takes one."""
    with server.events("/v1/watch?timeout=1") as events:
        assert len([*events]) == 1


def test_the_number_of_streams_is_bounded(server: Serving) -> None:
    """Each is a connection to the agent. A stream that its client leaves makes room."""
    with server.connected() as connection:
        connections = [server.connected() for _ in range(20)]
        for each in (connection, *connections):
            each.sendall(b"GET /v1/watch HTTP/1.1\r\nHost: a\r\n\r\n")
        statuses = sorted(each.recv(12)[-3:] for each in (connection, *connections))
        for each in connections:
            each.close()

    assert statuses == [b"200"] * 12 + [b"503"] * 9
    server.wait(lambda: server.raw(b"HEAD /v1/watch HTTP/1.1\r\nHost: a\r\n\r\n"), "a response")
    with server.events("/v1/watch") as events:
        assert "id" in next(events)


@pytest.mark.parametrize(
    ("status", "target"),
    [
        (404, "/"),
        (404, "/v1"),
        (404, "/v1/"),
        (404, "/v2/changes"),
        (404, "/v1/nonsense"),
        (404, "/v1/Change"),
        (404, "/v1/resource_changes"),
        (404, "/v1/counters/x"),
        (404, "/v1/changes/a/b"),
        (404, "/v1/../v1/changes"),
        (404, "/v1/%2e%2e/changes"),
        (404, "/v1/%2e%2e%2fetc%2fpasswd"),
        (404, "/v1/changes/"),
        (404, "/v1/changes/%00"),
        (404, "//v1/changes"),
        (400, "/v1/changes?limit=0"),
        (400, "/v1/changes?limit=1001"),
        (400, "/v1/changes?limit=-1"),
        (400, "/v1/changes?limit=1e2"),
        (400, "/v1/changes?limit=%D9%A1"),
        (400, "/v1/changes?limit=1&limit=2"),
        (400, "/v1/changes?other=1"),
        (400, "/v1/changes?newest=1"),
        (400, "/v1/changes?timeout=0"),
        (400, "/v1/watch?table=nonsense"),
        (400, "/v1/watch?table="),
        (400, "/v1/openapi.json?x"),
        (400, "/v1/%ff"),
        (200, "/v1/watch?table=changes&table=passes&timeout=1"),
    ],
)
def test_paths_and_parameters(server: Serving, status: int, target: str) -> None:
    """Only those of the document are served; the error says what is wrong."""
    found = server.get(target)

    assert found.status == status
    assert status == 200 or found.json.keys() == {"error"}


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "\xb2", "9" * 19, "1 2"])
def test_an_id_of_an_event_that_is_no_revision_is_refused(server: Serving, text: str) -> None:
    """It came from elsewhere."""
    assert server.get("/v1/watch", Last_Event_ID=text).status == 400


def test_head_has_no_body(server: Serving) -> None:
    """The headers are those of GET."""
    whole, head = server.get("/v1/hosts"), server.get("/v1/hosts", method="HEAD")

    assert head.body == b""
    assert head.headers == whole.headers
    assert server.get("/v1/nonsense", method="HEAD").body == b""
    assert server.get("/v1/watch", method="HEAD").headers["content-type"] == "text/event-stream"


def test_a_second_request_in_a_connection_is_not_read(server: Serving) -> None:
    """The connection is closed, so a proxy cannot smuggle a request."""
    smuggled = b"GET /v1/passes HTTP/1.1\r\nHost: a\r\n\r\n"
    said = server.raw(b"GET /v1/hosts HTTP/1.1\r\nHost: a\r\n\r\n" + smuggled)

    assert said.count(b"HTTP/1.1 ") == 1
    length = str(len(smuggled)).encode()
    refused = server.raw(b"GET /v1/hosts HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + b"\r\n\r\n" + smuggled)
    assert answer(refused).status == 413
    assert refused.count(b"HTTP/1.1 ") == 1


def test_the_socket_is_open_to_the_group_of_viewers(server: Serving) -> None:
    """The mode is that of the agent's socket."""
    assert server.path
    info = Path(server.path).stat()

    assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid) == (0o660, UID, GID)
    assert "Permission denied" in as_a_stranger(lambda: server.raw(b""), uid=UID + 1)


def test_a_port_needs_the_token_and_a_name(site: Site, port: Serving) -> None:
    """The name must be that of this server, or of the declared proxy."""
    path = site.home / "token"
    token = f"Bearer {path.read_text().strip()}"

    assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o600, UID)
    assert port.get("/v1/hosts", Authorization=token).status == 200
    assert port.get("/v1/hosts", Authorization=token, host="proxy.example").status == 200
    assert port.get("/v1/hosts", Authorization=token, host="evil.example").status == 421
    refused = port.get("/v1/hosts")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert port.get("/v1/openapi.json").status == port.get("/v1/watch").status == 401
    assert token not in port.log


def test_root_is_refused(site: Site) -> None:
    """The server needs no rights."""
    done = site.tree("serve", "--listen", f"unix:{site.home}/root.sock", check=1)

    assert "cannot serve as root" in done.stderr


def test_an_agent_without_viewers_cannot_be_served(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no socket for them."""
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    done = in_process("serve", "--listen", "127.0.0.1:0", "--state-dir", tmp_path, check=1)

    assert "this agent has no socket for viewers" in done.stderr


def test_a_place_that_is_none_is_a_mistake_of_usage() -> None:
    """The verb runs in a process of its own."""
    done = holdfast("serve", "--listen", "0.0.0.0:80", check=64)

    assert "put a proxy with TLS in front of it" in done.stderr


def test_a_server_ends_with_its_files(site: Site) -> None:
    """The socket is removed."""
    with site.serving("--listen", f"unix:{site.home}/ends.sock") as serving:
        assert (site.home / "ends.sock").exists()
        assert serving.stop() == 0

    assert not (site.home / "ends.sock").exists()


def test_a_killed_server_is_replaced(site: Site) -> None:
    """Its socket is left behind, and the next one takes its place."""
    words = ("--listen", f"unix:{site.home}/killed.sock")
    with site.serving(*words) as first:
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    with site.serving(*words) as second:
        assert second.get("/v1/hosts").status == 200


def test_silent_clients_exclude_nobody(site: Site) -> None:
    """A connection without a request gives way to the next one."""
    with site.serving("--listen", f"unix:{site.home}/silent.sock") as serving:
        many = [serving.connected() for _ in range(module.CLIENTS + 20)]
        assert serving.get("/v1/hosts").status == 200
        for each in many:
            each.close()


def test_a_lack_of_descriptors_is_told_and_ends_by_itself(site: Site) -> None:
    """The message is one line, and the server continues."""
    with site.serving("--listen", f"unix:{site.home}/scarce.sock", files=20) as serving:
        many = [serving.connected() for _ in range(40)]
        serving.wait(lambda: "cannot accept connections: Too many open files" in serving.log, "the line")
        for each in many:
            each.close()
        assert serving.get("/v1/nonsense").status == 404


def test_requests_at_once_are_all_answered(server: Serving) -> None:
    """They wait for each other, as the agent answers one viewer after the other."""
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(server.get("/v1/changes").status)) for _ in range(30)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert statuses == [200] * 30


def test_without_an_agent_the_answer_says_so_and_when_to_ask_again(site: Site) -> None:
    """The server continues, and serves the next agent. Its streams end with the agent."""
    view = site.tree.root.parent / "run/view.sock"
    with site.serving("--listen", f"unix:{site.home}/alone.sock") as serving:
        away = view.rename(view.with_name("away"))
        try:
            missing = serving.get("/v1/hosts")
            assert (missing.status, missing.headers["retry-after"]) == (503, "1")
            assert "cannot ask the agent" in missing.json["error"]
            assert serving.get("/v1/watch").status == 503
        finally:
            away.rename(view)
        assert serving.get("/v1/hosts").status == 200


def test_no_http_is_loaded_by_an_agent(site: Site) -> None:
    """The process of the agent imports nothing of the server."""
    code = (
        "import sys\nfrom holdfast.agent import daemon\n"
        "from holdfast.agent.control.decoding import requests\nrequests()\n"
        "print(*(name for name in sys.modules if '.serve.' in name or name in ('http.client', 'http.server')))"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", code], env=environment(), capture_output=True, text=True, timeout=DEADLINE, check=True
    )

    assert done.stdout.strip() == ""
