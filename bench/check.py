"""Measures `holdfast check`, from the start of the process to its end: 5 000 states in one file, and in 500 templates.

    python bench/check.py [--repeat 3]

prints one line of JSON: the seconds of the fastest repetition.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from compile import best, tree
from harness import HOLDFAST, private_directory

STATES, TEMPLATES = 5000, 500
TEMPLATE = """\
{{% set root = pillar.get('root', '/srv') %}}
{{% for n in range({each}) %}}
{{{{ root }}}}/{file}-{{{{ n }}}}:
  file.managed:
    - contents: {{{{ grains.id }}}}
    - mode: '0644'
{{% endfor %}}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how long a check takes.")
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    with private_directory() as base:
        (base / "states" / "site.sls").write_text(tree(STATES, "file.managed"))
        templates = base / "templates"
        templates.mkdir()
        for file in range(TEMPLATES):
            (templates / f"t{file}.sls").write_text(TEMPLATE.format(each=STATES // TEMPLATES, file=file))
        figures = {
            "plain_s": best(repeat, lambda: check(base / "states")),
            "templates_s": best(repeat, lambda: check(templates)),
        }
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))


def check(states: Path) -> None:
    """Check a states directory without errors or warnings."""
    subprocess.run([*HOLDFAST, "check", "--strict", "--states", str(states)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
