"""Each argument of a Salt state is implemented here, or refused with a reason; `arguments.yaml` lists them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from holdfast.resources import registry
from holdfast.resources.case_files import parsed
from holdfast.states.compile.check import shape_of
from holdfast.states.compile.low import CONTROL

HERE = Path(__file__).parent
SALT = parsed((HERE / "arguments.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", SALT["arguments"])
def test_each_argument_of_salt_is_known(kind):
    """Each is implemented, accepted with the reason why it has no effect, or refused with a reason."""
    cls = registry.find(kind)
    shape = shape_of(cls)
    known = shape.fields | shape.meta | shape.ignored.keys() | CONTROL | cls.refused.keys()

    assert set(SALT["arguments"][kind]) - known == set()


def test_all_kinds_are_listed():
    """A new kind has the arguments of Salt's state, or is listed as one that Salt does not have."""
    ours = {cls.kind for cls in registry.kinds() if cls.__module__.startswith("holdfast.")}

    listed = SALT["arguments"].keys() | set(SALT["own"])
    assert not ours - listed, "name the kind in tests/salt/arguments.yaml: under `own` if Salt does not have it"
    assert not listed - ours, "remove the kind from tests/salt/arguments.yaml"


def test_an_argument_has_one_meaning():
    """A refused argument is not also ignored, and each reason is unique."""
    for cls in registry.kinds():
        assert not cls.refused.keys() & (cls.model_fields.keys() | cls.ignored.keys()), cls.kind
        assert all([*cls.refused.values(), *cls.ignored.values()]), cls.kind


@pytest.mark.parametrize("version", ["3007", "3008"])
def test_the_list_equals_salts_signatures(version, pythons):
    """`arguments.yaml` agrees with the signatures of the installed Salt."""
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
