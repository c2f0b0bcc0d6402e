"""The target `typescript`: what it makes compiles with every check of tsc, and does what the one in Python does.

The compiler needs five seconds for each of these packages.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import typescript
from ec2_package import EC2
from holdfast.agent.idl.targets.javascript_patterns import javascript
from holdfast.agent.idl.targets.typescript import TARGET
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Remote
from holdfast.agent.model.package import Module, Package
from holdfast.agent.model.types import TEXT
from nasty_package import NASTY

GOLDEN = Path(__file__).parent / "ec2"
"""What the example gives, without the runtime; `holdfast idl compile` with both outputs renews it."""


@pytest.mark.parametrize("output", ["pack", "provider"])
def test_the_modules_of_the_example_are_as_they_were(output):
    """The modules are equal byte for byte; the runtime is the same for all packages."""
    made = {path: text for path, text in getattr(TARGET, output)(EC2).items() if "runtime" not in path}
    found = {
        each.relative_to(GOLDEN / output).as_posix(): each.read_text().partition("\n")[2]
        for each in (GOLDEN / output).rglob("*.ts")
        if "runtime" not in str(each)
    }

    assert found == made


USER = """
import { ANYWHERE, Protocol, SecurityGroup } from "./ec2/security_group.js";
import { Vpc } from "./ec2/vpc.js";
import { Invalid, toYaml } from "./holdfast-runtime/pack.js";

const main = new Vpc({ cidrBlock: "10.0.0.0/16" });
const https = { protocol: Protocol.TCP, fromPort: 443, toPort: 443, cidrBlocks: [ANYWHERE] };
const web = new SecurityGroup("web", { vpc: main, description: "the web servers", ingress: [https] });

const told: unknown[] = [];
for (const change of [
  { description: "x".repeat(256) },
  { vpc: web },
  { ingress: [{ ...https, fromPort: 70000, sourceGroup: "g" }] },
  { egres: [] },
  { description: undefined },
]) {
  try {
    // @ts-expect-error -- the compiler refuses most of these, and what it does not know is refused here
    new SecurityGroup({ vpc: "v", description: "d", ...change } satisfies never);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    told.push(error.violations.map(({ code, path }) => [code, path]));
  }
}
// @ts-expect-error -- an argument is missing
const missing = (): Vpc => new Vpc({});
// @ts-expect-error -- a resource of another kind
const other = (): SecurityGroup => new SecurityGroup({ vpc: web, description: "d" });
console.log(JSON.stringify({ states: toYaml({ main, web }), name: web.name, told, unused: [missing, other].length }));
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled example, with a program of a user; its pack needs no types but those of the language."""
    folder = tmp_path_factory.mktemp("example")
    typescript.written(TARGET.pack(EC2), folder / "src")
    (folder / "src/user.ts").write_text("declare const console: { log(text: string): void };\n" + USER)
    return typescript.compiled(folder, types=())


def test_a_user_makes_declarations_with_typed_arguments(example):
    """A resource stands for its identifier; a wrong argument is refused with the code and path of the other side."""
    said = json.loads(typescript.run(example / "user.js"))

    assert said["name"] == "web"
    assert yaml.safe_load(said["states"]) == {
        "main": {"aws-ec2.vpc": [{"cidr_block": "10.0.0.0/16"}]},
        "web": {
            "aws-ec2.security_group": [
                {"name": "web"},
                {"vpc": {"ref": "main"}},
                {"description": "the web servers"},
                {"ingress": [{"protocol": "tcp", "from_port": 443, "to_port": 443, "cidr_blocks": ["0.0.0.0/0"]}]},
            ]
        },
    }
    assert said["told"] == [
        [["length", "description"]],
        [["type", "vpc"]],
        [["range", "ingress[0].from_port"], ["rule", "ingress[0]"]],
        [["unexpected", "egres"]],
        [["missing", "description"]],
    ]


def test_names_and_documentation_cannot_break_a_module(tmp_path):
    """Quotes, ends of comments, fields with names that modules use, circles of modules, every type."""
    typescript.written(TARGET.pack(NASTY), tmp_path / "src/pack")
    typescript.written(TARGET.provider(NASTY), tmp_path / "src/provider")

    typescript.compiled(tmp_path)


def test_a_field_that_no_class_can_have_is_refused_with_what_to_do():
    """The other targets can have it."""
    kind = KindModel("p.r", Docs("R."), (Field("constructor", TEXT),), remote=Remote("p:m:R"))
    package = Package("p", "1.0.0", modules=(Module("m", resources=(kind,)),))

    with pytest.raises(ValueError, match="no field 'constructor'; give it another name on the wire: `name='other'`"):
        TARGET.pack(package)


PATTERNS = [
    (r"[a-z]+(?:_[a-z0-9]+)*", ["ab_c1", "Ab", "a_", ""]),
    (r"(?P<all>x|y){2,3}-\d+", ["xy-12", "xyxx-1", "xx-٣", "xy-"]),
    (r"\w+\s\S.", ["é x\r", "a b\n", "a\x1fbc", "_ _ "]),
    (r"a\b.c|\Bx\Z|[^\d\n]", ["a-c", "abc", "x", "5", "\n", "é"]),
    (r"(a)\1[\]\-^]$", ["aa]", "aa-", "aa^", "aa\\"]),
    (r"(?!b)[\W_]", ["_", "-", "b", "é"]),
    (r"(?<=x)?\Ax{,2}?/", ["xx/", "xxx/", "/"]),
    (r"(?s).{3}", ["a\nb", "ab", "😀😀😀"]),
    (r"[\S ]*", ["a b", "a\tb", " ", ""]),
]


@pytest.mark.parametrize(("pattern", "texts"), PATTERNS)
def test_a_pattern_matches_the_same_texts_in_javascript(pattern, texts, tmp_path):
    """Classes of characters, boundaries, groups, characters beyond 16 bits."""
    program = tmp_path / "program.mjs"
    program.write_text(
        f"const made = new RegExp({json.dumps(javascript(pattern))}, 'u');\n"
        f"console.log(JSON.stringify({json.dumps(texts)}.map((text) => made.test(text))));"
    )

    assert json.loads(typescript.run(program)) == [re.fullmatch(pattern, text) is not None for text in texts]


@pytest.mark.parametrize("pattern", [r"(?i)a", r"(a)?(?(1)b|c)", r"a++", r"(?>a)"])
def test_a_pattern_without_counterpart_is_refused(pattern):
    """The message has the pattern."""
    with pytest.raises(ValueError, match="JavaScript has no counterpart of"):
        javascript(pattern)
