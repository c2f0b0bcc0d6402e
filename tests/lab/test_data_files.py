"""Data, options and whole crontabs on a real host. The tests share one host, on which an agent keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Driver, Failed
from lab import Host, Run
from repairs import kept, repair_times

pytestmark = pytest.mark.lab

SETTINGS = {"listen": 8080, "users": ["alice", "bob"]}
INI = "; by hand\n[PHP]\nmemory_limit  =  256M\n;date = x\n\n[Other]\na = 1\n"
STATES = f"""\
/etc/app/settings.json:
  file.serialize:
    - serializer: json
    - makedirs: true
    - dataset: {json.dumps(SETTINGS)}
/etc/merged.yaml:
  file.serialize:
    - merge_if_exists: true
    - dataset: {{ours: {{a: 1}}}}
/etc/app.ini:
  ini.options_present:
    - sections: {{PHP: {{memory_limit: 256M}}}}
salt://crontab:
  cron.file: []
COLOUR:
  environ.setenv:
    - value: blue
echo $COLOUR >/run/colour:
  cmd.run: []
app/ready:
  event.send:
    - data: {{port: 8080}}
line 1:
  file.accumulated:
    - name: lines
    - filename: /etc/lines
    - text: one
    - require_in: [{{file: /etc/lines}}]
/etc/lines:
  file.managed:
    - template: jinja
    - contents: "{{% raw %}}{{{{ accumulator['lines'] | join }}}}{{% endraw %}}"
"""
TAB = "5 3 * * * /bin/true\\n"


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host whose agent has these states."""
    prepare = (
        "mkdir -p /etc/holdfast/states; printf '5 3 * * * /bin/true\\n' >/etc/holdfast/states/crontab; "
        f"printf '{INI.replace(chr(10), chr(92) + 'n')}' >/etc/app.ini; printf 'theirs: 1\\n' >/etc/merged.yaml"
    )
    with kept(run, layers, STATES, prepare) as host:
        yield host


@pytest.fixture(scope="module")
def driver(host: Host) -> Iterator[Driver]:
    """A driver of real kinds in this host."""
    with Driver(host) as driver:
        yield driver


def test_an_agent_keeps_them(host: Host):
    """From nothing, or beside what was there; each damage is repaired at its event."""
    assert json.loads(host.read("/etc/app/settings.json")) == SETTINGS
    assert host.read("/etc/merged.yaml") == "ours:\n  a: 1\ntheirs: 1\n"
    assert host.read("/etc/app.ini") == INI
    assert host.run("crontab", "-l").stdout == "5 3 * * * /bin/true\n"
    assert host.read("/run/colour") == "blue\n"
    assert host.read("/etc/lines") == "one\n"
    assert "event.send[app/ready]" in host.run("holdfast", "history").stdout
    for damage, right in (
        ("sed -i s/8080/80/ /etc/app/settings.json", "'8080' in text('/etc/app/settings.json')"),
        ("rm /etc/app/settings.json", "'8080' in text('/etc/app/settings.json')"),
        ("echo 'theirs: 2' >/etc/merged.yaml", "text('/etc/merged.yaml') == 'ours:\\n  a: 1\\ntheirs: 2\\n'"),
        ("sed -i s/256M/1M/ /etc/app.ini", f"text('/etc/app.ini') == {INI!r}"),
        ("echo '* * * * * id' | crontab -", f"text('/var/spool/cron/crontabs/root').endswith('{TAB}')"),
        ("crontab -r", f"text('/var/spool/cron/crontabs/root').endswith('{TAB}')"),
        ("echo two >/etc/lines", "text('/etc/lines') == 'one\\n'"),
    ):
        assert repair_times(host, damage, right)


def contents(host: Host) -> dict[str, str]:
    """Return what is on the disk, without what the running agent writes down."""
    return {path: told for path, told in host.contents().items() if not path.startswith("/var/lib/holdfast/")}


def test_a_plan_changes_nothing(host: Host, driver: Driver):
    """Not a byte, for each of the kinds; and their watches report what others change."""
    host.sh("printf '[a]\\nx = 1\\n' >/etc/other.ini; echo '{}' >/etc/other.json")
    for kind, name, arguments in (
        ("file.serialize", "/etc/other.json", {"dataset": {"a": 1}, "serializer": "json"}),
        ("ini.options_present", "/etc/other.ini", {"sections": {"a": {"x": 2}}}),
        ("ini.options_absent", "/etc/other.ini", {"sections": {"a": ["x"]}}),
        ("ini.sections_present", "/etc/other.ini", {"sections": ["b"]}),
        ("ini.sections_absent", "/etc/other.ini", {"sections": ["a"]}),
    ):
        before = contents(host)
        assert not driver.plan(kind, name, **arguments).right
        assert contents(host) == before, kind
        watch = driver.watch(kind, name, **arguments)
        watch.quiet()
        host.sh(f"touch {name}")
        watch.wait()
        assert not driver.apply(kind, name, **arguments).right
        assert driver.apply(kind, name, **arguments).right
    assert host.read("/etc/other.ini") == "[b]\n"


def test_a_crontab_that_cron_refuses_is_not_installed(host: Host, driver: Driver):
    """The message is that of cron, and the present crontab of the user stays."""
    host.sh("useradd app; echo '5 5 * * * id' | crontab -u app -; echo '61 * * * * id' >/root/wrong")
    with pytest.raises(Failed, match=r"cannot change the crontab of app: .*bad minute"):
        driver.apply("cron.file", "/root/wrong", user="app")
    assert host.run("crontab", "-u", "app", "-l").stdout == "5 5 * * * id\n"
