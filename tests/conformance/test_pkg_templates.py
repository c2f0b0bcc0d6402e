"""Salt's functions for packages in templates, with the real tool of each provider."""

from __future__ import annotations

import json

import pytest
from pkg_sites import PkgSite

pytestmark = pytest.mark.lab

TEMPLATE = """
{% set found = {
    'version': salt['pkg.version']('tiny'),
    'absent': salt['pkg.version']('no-such-package'),
    'listed': salt['pkg.list_pkgs']().get('tiny'),
    'newest': salt['pkg.latest_version']('tiny'),
    'upgrade': salt['pkg.upgrade_available']('tiny'),
    'upgrades': salt['pkg.list_upgrades']().get('tiny'),
    'order': salt['pkg.version_cmp']('1.9', '1.10'),
MORE
} %}
/root/found.json:
  file.managed:
    - contents: '{{ found | tojson }}'
"""
OPTIONAL = {
    "info": "'info': salt['pkg.info_installed']('tiny').get('tiny', {}).get('version'),",
    "owner": "'owner': salt['pkg.owner']('/usr/bin/tiny'),",
    "files": "'files': '/usr/bin/tiny' in salt['pkg.file_list']('tiny')['files'],",
}
"""Function that a tool may lack -> the template's expression for it."""


def test_templates_read_packages(site: PkgSite):
    """Salt's functions call the tool, by a provider that is created for one call."""
    old, new = site.versions
    site.add("tiny", old)
    grains = "".join(f"  {name}: {value}\n" for name, value in site.facts.items())
    site.host.write("/etc/holdfast/agent.yaml", f"grains:\n{grains}\n" if grains else "{}\n")
    more = {function: line for function, line in OPTIONAL.items() if function not in site.lacks}
    site.host.write("/etc/holdfast/states/found.sls", TEMPLATE.replace("MORE", "\n".join(more.values())))

    site.host.run("holdfast", "apply", "found")

    found = json.loads(site.host.read("/root/found.json"))
    wanted = {
        "version": old, "absent": "", "listed": old, "newest": new, "upgrade": True, "upgrades": new, "order": -1,
        "info": old, "owner": "tiny", "files": True,
    }  # fmt: skip
    assert found == {name: value for name, value in wanted.items() if name in more or name not in OPTIONAL}
