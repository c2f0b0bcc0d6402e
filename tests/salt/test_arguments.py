"""Each argument that a state of Salt has is taken here, or it is said why not; `arguments.yaml` lists them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from holdfast.resources import registry
from holdfast.states.compile.check import shape_of
from holdfast.states.compile.low import CONTROL

HERE = Path(__file__).parent
SALT = yaml.safe_load((HERE / "arguments.yaml").read_text(encoding="utf-8"))
OWN = {"systemd_unit.running"}
"""Kinds that Salt has not."""


@pytest.mark.parametrize("kind", SALT["arguments"])
def test_each_argument_of_salt_is_known(kind):
    """It does what it says, is accepted with the reason why it has no effect, or is refused with the reason."""
    cls = registry.find(kind)
    shape = shape_of(cls)
    known = shape.fields | shape.meta | shape.ignored.keys() | CONTROL | cls.refused.keys()

    assert set(SALT["arguments"][kind]) - known == set()


def test_all_kinds_are_listed():
    """A new kind comes with the arguments that Salt's has."""
    ours = {cls.kind for cls in registry.kinds() if cls.__module__.startswith("holdfast.")}

    assert ours - OWN == SALT["arguments"].keys()


def test_an_argument_has_one_meaning():
    """What is refused has no effect elsewhere, and each reason is one."""
    for cls in registry.kinds():
        assert not cls.refused.keys() & (cls.model_fields.keys() | cls.ignored.keys()), cls.kind
        assert all([*cls.refused.values(), *cls.ignored.values()]), cls.kind


@pytest.mark.parametrize("version", ["3007", "3008"])
def test_the_list_is_that_of_salt(version, pythons):
    """Asked for its signatures, Salt says what `arguments.yaml` does."""
    python = pythons[version]
    asked = json.dumps(sorted(SALT["arguments"]))
    done = subprocess.run(
        [python, "-W", "ignore", HERE / "signatures.py"], input=asked, stdout=subprocess.PIPE, text=True, check=True
    )
    (other,) = SALT["only"].keys() - {version}
    without = {kind: set(names) for kind, names in SALT["only"][other].items()}

    assert json.loads(done.stdout) == {
        kind: sorted(set(names) - without.get(kind, set())) for kind, names in SALT["arguments"].items()
    }
