"""The JSON schemas accept all valid files of the project, and refuse wrong ones at the right place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match

from holdfast.agent.generators import schemas
from holdfast.agent.generators.states_schema import states_schema
from holdfast.agent.model.build import build
from holdfast.agent.model.docstrings import Docs, docs_of
from holdfast.agent.model.model import KindModel
from holdfast.resources import registry
from holdfast.resources.case_files import parsed, placed
from holdfast.states.parse.loader import load_text

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATES_CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted((ROOT / "tests/states/cases").glob("*.yaml"))
    for case in parsed(path.read_text())
]


STRICTER = {
    "forms: text after a second dot is ignored": "the compiler warns",
    "order: floats and booleans are numbers": "a boolean is hardly meant as a number",
    "order: an unknown word runs after the numbers": "the compiler warns",
    "order: a large number moves the end": "the compiler warns of a number in quotes",
    "file.line/mode_in_capitals": "an editor offers the words in lower case",
}
"""Case of the compiler or of a kind that the schema refuses -> the reason."""


def as_json(data: Any) -> Any:
    """Return data of YAML with text as keys, as JSON has them."""
    if isinstance(data, dict):
        return {str(key): as_json(item) for key, item in data.items()}
    return [as_json(item) for item in data] if isinstance(data, (list, tuple)) else data


def without_templates(text: str) -> bool:
    """Return whether a text has no marks of templates, and no pipe in its first line."""
    return not any(mark in text for mark in ("{{", "{%", "{#", "#!"))


def states_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each file without templates below a directory."""
    for file in sorted(path.rglob("*.sls")):
        if without_templates(file.read_text()):
            yield str(file.relative_to(ROOT)), file.read_text()


def documented() -> Iterator[tuple[str, str]]:
    """Yield (page, text) of each state file without templates in the documentation."""
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]):
        for text in CODE.findall(page.read_text()):
            first = text.partition("\n")[0]
            if without_templates(text) and first.startswith("# ") and first.endswith(".sls"):
                yield f"{page.name}: {first[2:]}", text


def examples() -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each example in the documentation of a kind."""
    for cls in registry.kinds():
        if cls.__module__.startswith("holdfast."):
            yield from ((cls.kind, text) for text in docs_of(cls).examples)


def data_cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (case, states) of each data case of a kind."""
    for path in sorted((ROOT / "tests/cases").glob("*/*.yaml")):
        declared = placed(parsed(path.read_text())["declared"], {"tmp": "/tmp/case"})
        yield f"{path.parent.name}/{path.stem}", {"case": {path.parent.name: [{k: v} for k, v in declared.items()]}}


@pytest.fixture(scope="module")
def states() -> Draft7Validator:
    """Return the schema of state files."""
    own = [cls for cls in registry.kinds() if cls.__module__.startswith("holdfast.")]
    return Draft7Validator(states_schema(build(own)))


def problem(schema: Draft7Validator, data: Any) -> str:
    """Return the most relevant error with its place; empty if there is none."""
    error = best_match(schema.iter_errors(as_json(data)))
    return "" if error is None else f"{'/'.join(map(str, error.absolute_path))}: {error.message}"


def problems(schema: Draft7Validator, files: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return the error for each text or data that the schema refuses, by name."""
    found = {name: problem(schema, load_text(data, name) if isinstance(data, str) else data) for name, data in files}
    assert found
    return {name: said for name, said in found.items() if said}


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_each_schema_is_one_of_draft_07(name: str) -> None:
    """The schema of the draft accepts it, and all references of it lead to definitions."""
    schema = schemas.SCHEMAS[name]()
    text = str(schema)

    Draft7Validator.check_schema(schema)
    assert set(re.findall(r"'#/definitions/([^']+)'", text)) <= schema.get("definitions", {}).keys()


def test_examples_of_kinds_are_valid(states: Draft7Validator) -> None:
    """Each example in a docstring is a valid state file."""
    assert problems(states, [(f"{kind} {number}", text) for number, (kind, text) in enumerate(examples())]) == {}


def test_data_cases_of_kinds_are_valid(states: Draft7Validator) -> None:
    """The arguments that the cases of kinds declare are valid, except for those of STRICTER."""
    assert problems(states, data_cases()).keys() == {name for name in STRICTER if "/" in name}


def test_examples_of_the_documentation_are_valid(states: Draft7Validator) -> None:
    """State files without templates in the documentation and in config/examples are valid; so are top files."""
    every = [*documented(), *states_of(ROOT / "config/examples")]
    files = [(name, text) for name, text in every if "pillar" not in name]
    top = [(name, text) for name, text in files if name.endswith("top.sls")]

    assert problems(states, [each for each in files if each not in top]) == {}
    assert problems(Draft7Validator(schemas.top()), top) == {}
    assert problems(Draft7Validator(schemas.pillar()), [each for each in every if "pillar" in each[0]]) == {}


@pytest.mark.parametrize("case", STATES_CASES)
def test_all_forms_of_the_language_are_valid(case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """The states and top files of the compiler's cases are valid, except for those of STRICTER."""
    names = ("lamp.lit", "lamp.dark", "bell.rung", "bell.mute", "lamps.lit")
    kinds = tuple(KindModel(name, Docs("A lamp."), (), open=True) for name in names)
    of_states = Draft7Validator(states_schema(replace(build(), kinds=kinds)))
    of_tops = Draft7Validator(schemas.top())
    files = {path: text for path, text in case["files"].items() if path.endswith(".sls") and without_templates(text)}
    found = [
        problem(of_tops if path.startswith(("top.sls", "tops/")) else of_states, load_text(text, path))
        for path, text in files.items()
    ]

    assert any(found) == (request.node.callspec.id in STRICTER), found


WRONG = {
    "no kind": ("a:\n  file.manged:\n    - mode: '0644'", "a: "),
    "no such argument": ("a:\n  file.directory:\n    - moode: '0644'", "a/file.directory/0: "),
    "no argument of a file without template": ("a:\n  file.managed:\n    - moode: x", "a/file.managed/0: "),
    "no such argument in the short form": ("a:\n  file:\n    - directory\n    - moode: x", "a/file/1"),
    "no mode": ("a:\n  file.directory:\n    - mode: '0999'", "a/file.directory/0/mode: "),
    "no boolean": ("a:\n  file.directory:\n    - makedirs: maybe", "a/file.directory/0/makedirs: "),
    "no choice": ("a:\n  file.line:\n    - mode: ensure\n    - location: middle", "a/file.line/1/location: "),
    "out of range": ("a:\n  group.present:\n    - gid: -1", "a/group.present/0/gid: "),
    "a missing argument": ("a:\n  file.symlink:\n    - makedirs: true", "a/file.symlink: "),
    "a refused argument": ("a:\n  file.managed:\n    - signature: x", "a/file.managed/0/signature: "),
    "arguments as a mapping": ("a:\n  file.absent:\n    name: /x", "a/file.absent: "),
    "no function": ("a:\n  file:\n    - name: /x", "a/file: "),
    "a requisite without a list": ("a:\n  test.nop:\n    - require: b", "a/test.nop/0/require: "),
    "a requisite of a function": ("a:\n  test.nop:\n    - require:\n      - test.nop: b", "a/test.nop/0/require/0"),
    "an unknown meta parameter of a record": (
        "a:\n  test.nop:\n    - retry: {atempts: 3}", "a/test.nop/0/retry: "
    ),
    "an order that is a word": ("a:\n  test.nop:\n    - order: middle", "a/test.nop/0/order: "),
    "an include without a list": ("include: a", "include: "),
    "an exclusion of something else": ("exclude:\n  - file: a", "exclude/0: "),
    "an extension that is a list": ("extend:\n  a: []", "extend/a: "),
    "an ID without a body": ("a: 5", "a: "),
    "no mapping": ("- a", ": "),
}  # fmt: skip
"""What is wrong -> a state file, and the beginning of the error: its place."""


@pytest.mark.parametrize("what", WRONG)
def test_wrong_states_are_refused_at_the_right_place(what: str, states: Draft7Validator) -> None:
    """The most relevant error is at the part that is wrong."""
    text, place = WRONG[what]

    assert problem(states, load_text(text, what)).startswith(place)


def test_a_kind_with_a_template_accepts_its_variables(states: Draft7Validator) -> None:
    """With `template`, any argument is a variable; an argument can also come from `use`, `recv` or `names`."""
    right = {
        "variables": "a:\n  file.managed:\n    - template: jinja\n    - port: 80",
        "use": "a:\n  file.symlink:\n    - use: [{file: b}]",
        "recv": "a:\n  file.symlink:\n    - recv: {target: {cmd: b, key: stdout}}",
        "names": "a:\n  file.symlink:\n    - names:\n      - /b:\n        - target: /c",
        "former name": "a:\n  file.managed:\n    - show_diff: false",
        "the short form": "a:\n  file:\n    - symlink\n    - target: /b\n    - require: [{sls: c}]",
        "one function alone": "a: test.nop",
        "empty": "",
    }

    assert problems(states, right.items()) == {}


def test_what_is_accepted_without_effect_is_marked_for_editors(states: Draft7Validator) -> None:
    """Editors show the reason: arguments without effect, former names, and refused arguments."""
    known = states.schema["definitions"]["arguments of file.managed"]["properties"]

    assert known["tmp_dir"]["description"].startswith("Accepted without effect: the temporary file")
    assert known["show_diff"]["description"] == "Former name of `show_changes`."
    assert known["tmp_dir"]["doNotSuggest"]
    assert known["signature"]["errorMessage"] == "refused: Holdfast does not check signatures; use source_hash"
    assert "```yaml\n/etc/motd:" in states.schema["definitions"]["file.managed"]["description"]


def test_settings_are_checked() -> None:
    """The documented settings are valid; a wrong name, type or choice is refused at its place."""
    schema = Draft7Validator(schemas.agent())
    files = [(str(path), path.read_text()) for path in (ROOT / "config").rglob("agent.yaml")]

    assert problems(schema, files) == {}
    assert problem(schema, {"staets": "x"}).startswith(": Additional properties")
    assert problem(schema, {"log": {"level": "loud"}}).startswith("log/level: 'loud' is not one of")
    assert problem(schema, {"engine": {"workers": 0}}).startswith("engine/workers: 0 is less than the minimum")
    assert problem(schema, {"environments": {"dev": {}}}).startswith("environments/dev: 'states' is a required")


def test_pillar_and_top_files_are_checked() -> None:
    """A pillar file is a mapping with any keys; targets of a top file have lists of names and options."""
    pillar, top = Draft7Validator(schemas.pillar()), Draft7Validator(schemas.top())

    assert problem(pillar, {"a": [1], "include": ["b", {"c": {"key": "d:e", "defaults": {"f": 1}}}]}) == ""
    assert problem(pillar, ["a"]).startswith(": ['a'] is not of type")
    assert problem(pillar, {"include": [{"b": {"keys": "d"}}]}).startswith("include/0")
    assert problem(top, {"base": {"*": ["a", {"match": "glob"}, {"order": 2}, {"base": "b"}]}}) == ""
    assert problem(top, {"base": {"*": [{"match": "globe"}]}}).startswith("base/*/0")
    assert problem(top, {"base": ["a"]}).startswith("base: ['a'] is not of type")
