"""A configuration whose files drift, for tests of `holdfast drift`."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast_process import Agent, Tree

STATES = """
HOST/motd:
  file.managed:
    - contents: hello
src:
  file.managed:
    - name: HOST/src
    - source: salt://conf/src.conf
HOST/page:
  file.managed:
    - source: salt://page.j2
    - template: jinja
HOST/said:
  file.managed:
    - contents_pillar: said
HOST/mode:
  file.managed:
    - contents: same
    - mode: '0644'
HOST/key:
  file.managed:
    - contents: private
    - mode: '0600'
HOST/gone:
  file.absent: []
part:
  file.append:
    - name: HOST/part
    - text: line
HOST/note:
  note.present:
    - text: declared
"""
NOTE = '''
"""A note of one line."""

from holdfast import Context, Delta, Resource, Watch


class Note(Resource, kind="note.present"):
    """A one-line note."""

    text: str
    """What it says."""

    async def probe(self, ctx: Context) -> dict[str, object]:
        return {"text": (await ctx.read_text(self.name)).strip()}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        with open(self.name, "w") as file:
            file.write(f"{self.text}\\n")

    def watch(self, ctx: Context) -> Watch:
        return ctx.watch_path(self.name)
'''
HAND: dict[str, str] = {
    "motd": "by hand {{ x }}\n",
    "src": "one\nTWO\n",
    "page": "by hand\n",
    "said": "by hand\n",
    "key": "by hand\n",
    "gone": "here\n",
    "part": "other\n",
    "note": "by hand\n",
}
"""File -> the content that a person writes."""
REPAIRED = {
    "motd": "hello\n",
    "src": "one\ntwo\n",
    "page": "2\n",
    "said": "hi\n",
    "key": "private\n",
    "note": "declared\n",
}


def configured(root: Path) -> Tree:
    """Return a configuration with these states."""
    tree = Tree(root)
    tree.sls("all", STATES)
    (tree.etc / "states/conf").mkdir()
    (tree.etc / "states/conf/src.conf").write_text("one\ntwo\n")
    (tree.etc / "states/page.j2").write_text("{{ 1 + 1 }}\n")
    (tree.etc / "resources").mkdir()
    (tree.etc / "resources/note.py").write_text(NOTE)
    tree.pillar("said: hi\n")
    (tree.host / "part").write_text("first\n")
    return tree


def drifted(tree: Tree, agent: Agent, number: int) -> None:
    """Wait until the records have this number of drifts."""

    def recorded() -> bool:
        done = tree("drift", "list", "--format", "json")
        return done.returncode == 0 and len(json.loads(done.stdout)["drifts"]) >= number  # first, there are no records

    agent.wait(recorded, f"{number} records of drifts")


def written(path: Path, text: str) -> None:
    """Replace a file in one step, so that no reader sees it empty."""
    new = path.with_name("new")
    new.write_text(text)
    new.rename(path)


def id_of(tree: Tree, name: str) -> str:
    """Return the ID of the drift of a file."""
    return str(next(each["id"] for each in tree.json("drift", "list")["drifts"] if name in each["resource"]))
