"""The examples in the documentation are correct: the files of each section compile together."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.agent.cli.main import cli
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.declare.pillar import compile_pillar
from holdfast_process import holdfast

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```yaml\n# (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (page and heading, files) of each section with files: YAML blocks that begin with a path as a comment."""
    for page in sorted(DOCS.glob("*.md")):
        for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
            files = {match["path"]: match["text"] for match in BLOCK.finditer(section)}
            if files:
                yield f"{page.name}: {section.splitlines()[0]}", files


SHOWN = re.compile(r"^    (?:\S*/)?holdfast (?P<line>\S+(?: \S+)*)|`holdfast (?P<inline>[^`]+)`", re.MULTILINE)
"""A command in the documentation: an indented line up to two spaces or its end, or text between backticks."""


def commands() -> Iterator[tuple[str, str]]:
    """Yield (page, words after `holdfast`) of each command that a page shows. `a | b` and `a|b` are alternatives."""
    for page in sorted([*DOCS.glob("*.md"), *DOCS.parent.glob("*.md")]):
        for found in SHOWN.finditer(page.read_text()):
            shown = re.sub(r"\[(-\S+)\]", r"\1", (found["line"] or found["inline"]).partition(" > ")[0])
            first, *others = re.split(r" \| ", shown)
            for words in (
                first,
                *(f"{first.split()[0]} {other}" if other.startswith("-") else other for other in others),
            ):
                verb, *rest = re.sub(r"\|\S+", "", words).split(maxsplit=1)
                yield page.name, " ".join([verb, *rest])


@pytest.mark.parametrize(("page", "words"), sorted(set(commands())))
def test_every_command_in_the_documentation_exists(page: str, words: str) -> None:
    """The verb and the options of each command exist; nothing is run."""
    command: click.Command = cli
    args = shlex.split(words.replace("...", ""))
    context = cli.make_context("holdfast", args, resilient_parsing=False)
    while isinstance(command, click.Group) and args:
        name = args.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{page} shows `holdfast {words}`; there is no {name!r}"
        command = found
    needed = [
        parameter.metavar
        for parameter in command.params
        if isinstance(parameter, click.Argument) and parameter.required
    ]
    command.make_context(words, [*args, *(["x[y]"] if needed and not args else [])], parent=context)


AT_HAND = {
    "common.sls": "{}",
    "debian.sls": "{}",
    "web/nginx.sls": (
        "nginx:\n  service.running\ndefault site:\n  file.absent:\n    - name: /etc/nginx/sites-enabled/default\n"
    ),
    "web/certificates.sls": "{}",
    "nginx.conf": "",
}
"""Files that the examples expect to exist."""


@pytest.mark.parametrize(("section", "files"), [pytest.param(name, files, id=name) for name, files in sections()])
def test_examples_compile(section: str, files: dict[str, str], tmp_path: Path) -> None:
    """All files of a section compile in one tree: each state file alone, and the top file if there is one."""
    states, pillar = tmp_path / "states", tmp_path / "pillar"
    for path, text in {**{f"states/{path}": text for path, text in AT_HAND.items()}, **_placed(files)}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    pillar.mkdir(exist_ok=True)
    trusted = frozenset({os.getuid()})
    request = CompilerInputs(
        states=states, grains={"os_family": "Debian", "os": "Debian"}, minion_id="web1", trusted_uids=trusted
    )
    data = compile_pillar(pillar, request).data
    names = [
        path.removesuffix(".sls").replace("/", ".")
        for path in files
        if path.endswith(".sls") and not path.startswith("pillar/")
    ]

    for name in names:
        sls = () if name == "top" else (name,)
        assert Compiler().compile(request._replace(sls=sls, pillar=data)) is not None


def _placed(files: dict[str, str]) -> dict[str, str]:
    return {path if path.startswith("pillar/") else f"states/{path}": text for path, text in files.items()}


def test_pictures_show_the_examples(tmp_path: Path) -> None:
    """`holdfast show graph --format svg` draws each picture of an example again without a difference."""
    (tmp_path / "grains.yaml").write_text("os_family: Debian\nid: web\n")
    for picture in sorted((DOCS / "pictures").glob("*.svg")):
        example = DOCS.parent / "config/examples" / picture.stem
        pillar = ("--pillar", example / "pillar") if (example / "pillar").exists() else ()
        words = (
            "show",
            "graph",
            "--states",
            example / "states",
            *pillar,
            "--grains",
            tmp_path / "grains.yaml",
            "--id",
            "web",
            "--format",
            "svg",
        )
        drawn = holdfast(*words, check=0)

        assert drawn.stdout == picture.read_text(), f"recreate {picture.name}: holdfast {' '.join(map(str, words))}"
