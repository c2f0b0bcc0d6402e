"""What templates read of packages by Salt's functions, with the real tool of each provider."""

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
    'described': salt['pkg.info_installed']('tiny').get('tiny', {}).get('version'),
    'newest': salt['pkg.latest_version']('tiny'),
    'upgrade': salt['pkg.upgrade_available']('tiny'),
    'upgrades': salt['pkg.list_upgrades']().get('tiny'),
    'owner': salt['pkg.owner']('/usr/bin/tiny'),
    'files': '/usr/bin/tiny' in salt['pkg.file_list']('tiny')['files'],
    'order': salt['pkg.version_cmp']('1.9', '1.10'),
} %}
/root/found.json:
  file.managed:
    - contents: '{{ found | tojson }}'
"""


def test_templates_read_packages(site: PkgSite):
    """Salt's functions, by the tool, in a provider that is made for one call."""
    old, new = site.versions
    site.add("tiny", old)
    grains = "".join(f"  {name}: {value}\n" for name, value in site.facts.items())
    site.host.write("/etc/holdfast/agent.yaml", f"grains:\n{grains}\n" if grains else "{}\n")
    site.host.write("/etc/holdfast/states/found.sls", TEMPLATE)

    site.host.run("holdfast", "apply", "found")

    found = json.loads(site.host.read("/root/found.json"))
    assert found == {
        "version": old, "absent": "", "listed": old, "described": old, "newest": new, "upgrade": True,
        "upgrades": new, "owner": "tiny", "files": True, "order": -1,
    }  # fmt: skip
