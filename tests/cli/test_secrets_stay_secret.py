"""No output shows a secret of the pillar, in whatever field and encoding."""

from __future__ import annotations

import base64
import json

import pytest
from click.testing import CliRunner

from holdfast.agent.cli.main import cli
from holdfast.agent.control.client import ask, follow
from holdfast.agent.control.internal import LiveGraph
from holdfast.agent.control.schema import ControlError
from holdfast.agent.verbs.log import LogLines
from holdfast.agent.verbs.metrics import Metrics
from holdfast.agent.verbs.reload import Reload
from holdfast.agent.verbs.status import Status
from holdfast.agent.verbs.trace import Trace
from holdfast.agent.verbs.trigger import Trigger
from holdfast.agent.verbs.watch import LiveView
from holdfast.agent.verbs.why import Why
from holdfast_process import Agent, Tree

SECRET = "hunter2-xyzzy!"
BASE64 = base64.b64encode(f"user:{SECRET}".encode()).decode()
PILLAR = f"""\
db: {{url: 'postgres://app:pw-of-url@db/app'}}
secrets: {{deep: {{pin: '{SECRET}'}}}}
api_tokens: [token-number-one]
harmless: plain
"""
STATES = """\
named:
  cmd.run:
    - name: >-
        echo {{ pillar.secrets.deep.pin }} {{ ('user:' ~ pillar.secrets.deep.pin) | base64_encode }}
        {{ pillar.db.url }} > HOST/named
fails:
  cmd.run:
    - name: echo {{ pillar.api_tokens[0] }} Password=dsn-password; exit 3
    - retry: {attempts: 2, interval: 0}
HOST/token-number-one:
  file.managed:
    - contents: {{ pillar.secrets.deep.pin }}
    - require: [{cmd: named}]
below:
  test.nop:
    - require: [{cmd: fails}]
    - password: given
"""
HIDDEN = (SECRET, BASE64.rstrip("=")[8:-2], "pw-of-url", "token-number-one", "dsn-password")


@pytest.fixture
def tree(tmp_path):
    """States with secrets in names, IDs, comments and output."""
    tree = Tree(tmp_path)
    tree.sls("web", STATES.replace("    - password: given\n", ""))
    (tree.etc / "pillar/data.sls").write_text(PILLAR)
    return tree


def run(tree, *words):
    """Return the output of one verb, run in this process."""
    done = CliRunner().invoke(cli, [*map(str, words), "--config", str(tree.config)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output


def demand_hidden(what, text):
    """Check that a text has none of the secrets."""
    found = [secret for secret in HIDDEN if secret in text]
    assert not found, f"{what} shows {found}: {text}"


def test_verbs_without_an_agent_show_no_secret(tree):
    """The verbs are `plan`, `apply`, `check`, and each view of `show` in each format."""
    views = [["show", view] for view in ("low", "high", "order", "graph", "pillar")]
    for view in [
        *views,
        *([*view, "--format", "json"] for view in views),
        ["show", "graph", "--format", "svg"],
        ["check"],
        ["plan"],
    ]:
        text = run(tree, *view)
        demand_hidden(view, text)
        assert "********" in text or view == ["check"], view
    for form in ("text", "json"):
        text = run(tree, "apply", "--format", form, "--verbose")
        demand_hidden(form, text)
        assert "********" in text
    assert SECRET in (tree.host / "named").read_text()
    assert json.loads(run(tree, "show", "pillar", "--format", "json"))["harmless"] == "plain"
    assert SECRET in run(tree, "show", "pillar", "--secrets")


def test_errors_of_states_show_no_secret(tree):
    """A wrong value is quoted in its error, with secrets masked; `show low` masks them in such states, too."""
    tree.sls(
        "web",
        "a:\n  file.managed:\n    - name: {{ pillar.secrets.deep.pin }}\n    - mode: {{ pillar.secrets.deep.pin }}\n",
    )
    for view in (
        ["show", "low"],
        ["show", "high"],
        ["apply"],
        ["check"],
        ["check", "--format", "json"],
        ["apply", "--format", "json"],
    ):
        text = run(tree, *view)
        demand_hidden(view, text)
        assert "********" in text


def test_errors_of_settings_show_no_secret(tree):
    """A setting of the wrong type is quoted, with secrets masked."""
    tree.settings("grains: [{api_key: hunter2-xyzzy!}]\n")
    text = run(tree, "show", "low")

    assert "grains" in text
    demand_hidden("settings", text)


def test_a_running_agent_shows_no_secret(tree):
    """All answers of the control socket, and the log on stderr, are checked."""
    socket = tree.root / "state/control.sock"
    with Agent(tree) as agent:
        agent.wait((tree.host / "token-number-one").exists, "the last state")
        (tree.host / "token-number-one").write_text("drift")
        agent.wait(lambda: SECRET in (tree.host / "token-number-one").read_text(), "the repair")
        identities = ("cmd.run[fails]", "cmd.run[named]", "test.nop[below]")
        requests = [
            *(Status(), LiveGraph(), Trace(), Metrics(), Reload()),
            *(Why(each) for each in identities),
        ]
        for request in [*requests, Trigger("cmd.run[fails]")]:
            demand_hidden(request, json.dumps(ask(socket, request)))
        with pytest.raises(ControlError) as caught:
            ask(socket, Why("token-number-on"))
        demand_hidden("a hint", str(caught.value).replace("token-number-on:", ""))
        demand_hidden("log", json.dumps(list(follow(socket, LogLines()))))
        demand_hidden("watch", json.dumps(next(iter(follow(socket, LiveView(), "frame")))))
        named = next(row for row in ask(socket, Status())["resources"] if row["identity"] == "cmd.run[named]")
        assert named["name"].startswith("echo ******** ")
    demand_hidden("stderr", agent.log_path.read_text())
    assert "********" in agent.log_path.read_text()
