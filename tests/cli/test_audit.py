"""`plan --format html` writes one page with all differences; no content can become markup or script."""

import base64
import hashlib
import re
import stat
import time
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from holdfast.agent.cli.audit import rows_of
from holdfast.agent.cli.page import Row, page
from holdfast.agent.cli.tally import tally
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.resources import registry
from holdfast.resources.contract import CONCERNS
from holdfast.resources.effects import Effect
from holdfast.resources.secrets import MASK, Redactor
from holdfast.states.errors import Location
from holdfast_process import Tree

EVIL = '</pre></style><script>alert(1)</script><img src="https://example.org/x" onerror=alert(1)> & \u202e\x1b[2J'
VOID = ("meta", "br")


class Reader(HTMLParser):
    """A parser that collects elements, attributes and text, and checks that elements are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.attributes, self.text, self.policy = [], set(), [], "", ""

    def handle_starttag(self, tag, attrs):
        """Record an element and its attributes."""
        self.names.add(tag)
        self.attributes += attrs
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Check that the last opened element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Record text."""
        self.text += data


def parse_page(text):
    """Parse a page, and check that it is well-formed."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture
def tree(tmp_path):
    """States with hostile names and contents, and a secret."""
    tree = Tree(tmp_path)
    tree.pillar("app:\n  password: correct-horse\n")
    tree.sls(
        "site",
        '"HOST/a<script>alert(1)<b>\'":\n  file.managed:\n    - contents: |\n'
        "        </pre><script>alert(2)</script> & correct-horse\n"
        "HOST/moded:\n  file.managed:\n    - mode: '0600'\n"
        "HOST/right:\n  file.directory: []\n"
        "/etc/ssh/sshd_config.d/holdfast-test.conf:\n  file.managed:\n    - makedirs: true\n"
        "bad:\n  test.fail_without_changes: []\nrun:\n  cmd.run:\n    - name: 'true'\n",
    )
    (tree.host / "moded").touch(mode=0o644)
    (tree.host / "right").mkdir()
    return tree


def test_the_page_is_self_contained_and_masks_secrets(tree):
    """The page has only its own markup, no script, and fetches nothing.

    The content security policy allows its style by the hash. Secrets are masked.
    """
    text = tree("plan", "--format", "html", check=1).stdout
    found = parse_page(text)

    assert {"script", "img", "link", "iframe", "object", "form"}.isdisjoint(found.names)
    assert not any(name.startswith("on") or name in ("src", "style") for name, _ in found.attributes)
    assert all(value.startswith("#") for name, value in found.attributes if name == "href")
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style
    assert (
        f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
        in found.policy
    )
    assert "</pre><script>alert(2)</script> & ********" in found.text
    assert "correct-horse" not in text
    assert f"file.managed[{tree.host}/a<script>alert(1)<b>']" in found.text


def test_differences_are_grouped_by_what_they_concern(tree):
    """Failures come first, then modes, owners and files that control access, then services and commands, then content.

    Resources as declared are listed by name.
    """
    text = tree("plan", "--format", "html", check=1).stdout
    sections = {
        name: re.search(f'<section class="{name}".*?</section>', text, re.DOTALL)[0]
        for name in re.findall(r'<section class="(\w+)"', text)
    }

    assert list(sections) == ["failed", "security", "operation", "content", "right"]
    assert "test.fail_without_changes[bad]" in sections["failed"]
    assert f"file.managed[{tree.host}/moded]" in sections["security"]
    assert "file.managed[/etc/ssh/sshd_config.d/holdfast-test.conf]" in sections["security"]
    assert "cmd.run[run]" in sections["operation"]
    assert "would create " in sections["content"]
    assert f"{tree.etc}/states/site.sls:" in sections["content"]
    assert f"<code>file.directory[{tree.host}/right]</code>" in sections["right"]
    found = parse_page(text).text
    assert "Plan for test" in found
    assert time.strftime("%Y-%m-%dT", time.gmtime()) in found
    assert "4 of 6 resources differ from what is declared; 1 could not be checked." in found


def test_the_file_of_a_report_is_private_and_replaces_a_link(tree, tmp_path):
    """The file has mode 0600, because a report shows private files. A symbolic link is replaced, not followed.

    A missing directory is an error before anything runs.
    """
    target, report = tmp_path / "target", tmp_path / "report.html"
    target.write_text("kept")
    report.symlink_to(target)
    done = tree("plan", "--format", "html", "-o", report, check=1)

    assert done.stdout.startswith("not converged in ")
    assert not report.is_symlink()
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert target.read_text() == "kept"
    parse_page(report.read_text())
    assert "/no: No such file or directory" in tree(
        "plan", "--format", "html", "-o", tmp_path / "no/report.html", check=1
    ).stderr.replace("\n", "")
    for file in (report, "-"):
        assert "-o requires --format html" in tree("plan", "-o", file, check=64).stderr


def rows(number):
    """Return rows with hostile text in every field."""
    return [
        Row(
            f"file.managed[{EVIL}{each}]",
            "would-change",
            "content",
            EVIL,
            EVIL,
            {EVIL: {"old": EVIL, "new": [EVIL]}, "x": {EVIL: EVIL}},
            f"+{EVIL}\n-x\n",
        )
        for each in range(number)
    ]


def test_a_dash_is_standard_output(tree, tmp_path):
    """`-o -` writes only the page to standard output, and creates no file named `-`."""
    text = tree("plan", "--format", "html", "-o", "-", check=1, cwd=tmp_path).stdout

    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert not (tmp_path / "-").exists()


def test_no_text_of_a_row_becomes_markup():
    """Text is escaped in every field. Characters that control a display are shown as escapes."""
    text = "".join(page(EVIL, {EVIL: EVIL}, rows(3), [EVIL]))
    found = parse_page(text)

    assert {"script", "img"}.isdisjoint(found.names)
    assert not any(name == "onerror" for name, _ in found.attributes)
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_five_thousand_resources_make_a_page_of_bounded_size_and_time():
    """A page leaves out diffs beyond a limit, and says so."""
    found = [
        Row(f"file.managed[/srv/{n}]", "would-change", "content", "said", "a.sls:1", {"mode": "0644"}, "+line\n" * 20)
        for n in range(5000)
    ]
    began = time.process_time()
    text = "".join(page("t", {}, found, []))

    assert time.process_time() - began < 5
    assert len(text) < 5 << 20
    large = [Row("x", "would-change", "content", "said", "a.sls:1", {}, "+" + "x" * (9 << 20)) for _ in range(3)]
    text = "".join(page("t", {}, large, []))
    assert len(text) < 20 << 20
    assert "left out, because this page would become too large" in text


def test_each_kind_declares_what_its_changes_concern():
    """Each kind declares this for the whole resource and for its properties; only test kinds may concern nothing."""
    for kind in registry.kinds():
        assert set(kind.concerns.values()) <= set(CONCERNS)
        assert (
            (kind.concerns[""] != "other")
            or kind.kind.startswith("test.")
            or not kind.__module__.startswith("holdfast.")
        ), kind.kind


@pytest.mark.parametrize(
    ("effect", "result", "counted"),
    [
        (Effect(("create",), "/a"), True, "1 created"),
        (Effect(("create",), "/a", detail=" with mode 0644, owner root:root"), None, "1 would be created"),
        (Effect(("install",), "nginx 1.2"), True, "1 created"),
        (Effect(("install", "change"), "2 packages"), None, "1 would be created"),
        (Effect(("remove",), "group a"), None, "1 would be removed"),
        (Effect(("remove",), "/a"), True, "1 removed"),
        (Effect(("remove",), "/a", "3 entries"), True, "1 changed"),
        (Effect(("change",), "/a", "mode"), True, "1 changed"),
        (Effect(("replace",), "role a"), True, "1 replaced"),
        (Effect(("replace",), "role a", detail=", because of another name"), None, "1 would be replaced"),
        (None, True, "1 changed"),
    ],
)
def test_the_summary_counts_effects_and_unchanged_resources(effect, result, counted):
    """A removed part of a thing counts as a change of that thing."""
    done = Outcome("a", 0, result, {"x": "y"}, effect=effect), Outcome("b", 1, result=True)

    assert tally(done, 2.0).endswith(f" in 2.0 s: {counted}, 1 ok")


def test_another_secret_is_a_change_on_the_page():
    """As in the text of a plan; two masks would look like equal values."""
    row = Row("a.b[c]", "would-change", "security", "", "a.sls:1", {"password": {"old": MASK, "new": MASK}}, "")
    text = "".join(page("Plan", {}, [row], []))

    assert '<th>password</th><td class="v">changed</td>' in text
    assert MASK not in text


def test_a_row_of_a_refresh_has_its_comment_but_no_changes():
    """Salt's `changes` of a refreshed service are `nginx: True`.

    That tells a reader nothing; the comment names the action.
    """
    resource = registry.find("service.running").declare("nginx")
    call = SimpleNamespace(identity="service.running[web]", resource=resource, location=Location("web.sls", 3))
    compiled = SimpleNamespace(compilation=SimpleNamespace(calls=(call,)))
    effect = Effect(("restart",), "nginx")
    refresh = Outcome("service.running[web]", 0, None, {"nginx": True}, "would restart nginx", effect=effect)

    (row,) = rows_of(compiled, [refresh._replace(refreshed=True)], Redactor())
    assert (row.said, row.changes, row.place) == ("would restart nginx", {}, "web.sls:3")
