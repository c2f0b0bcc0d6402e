"""Masking in calls of a package's functions. Tests with a real plugin are in `test_calls.py`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, Record
from holdfast.agent.model.package import FunctionModel, Module, Package
from holdfast.agent.model.types import INTEGER, TEXT, Type
from holdfast.agent.plugins.functions import PackageFunction
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.values import Secret
from holdfast.resources.secrets import MASK

LOGIN = Record(
    "Login", Docs("A login."), (Field("user", TEXT, required=True), Field("password", TEXT, required=True, secret=True))
)
LOGINS = Type("list", items=Type("record", record="m:Login"))
ROTATE = FunctionModel(
    "Rotate",
    Docs("Give logins new passwords."),
    (Field("logins", LOGINS, required=True), Field("count", INTEGER)),
    (
        Field("logins", Type("mapping", keys=TEXT, items=Type("record", record="m:Login")), required=True),
        Field("token", TEXT, required=True, secret=True),
    ),
)
PACKAGE = Package("p", "1.0.0", modules=(Module("m", records=(LOGIN,), functions=(ROTATE,)),))


def found(answer: Any = None) -> PackageFunction:
    """Return the function of a plugin that gives this answer."""

    async def call(*_: Any) -> Any:
        return answer

    schema = Schema(PACKAGE)
    (token,) = schema.functions
    plugin = SimpleNamespace(declared=SimpleNamespace(schema=schema), call=call)
    return PackageFunction("p.rotate", token, cast("Any", plugin))


def test_secrets_within_arguments_are_masked():
    """The log and the history show the rest of the argument."""
    function = found()
    values = function.bind(['logins=[{"user": "web", "password": "open sesame"}]', "count=1"], {})

    assert function.shown(values) == {"logins": [{"user": "web", "password": MASK}], "count": 1}


async def test_secrets_within_a_result_are_masked():
    """They are masked even if a result has the name of an argument with another type."""
    result = {"logins": {"web": {"user": "web", "password": Secret("open sesame")}}, "token": Secret("t0ken")}
    answer = message["InvokeResponse"](result=Payloads(Schema(PACKAGE)).pack_results(ROTATE, result))

    shown = await found(answer).call({"logins": []}, None)

    assert shown == {"logins": {"web": {"user": "web", "password": MASK}}, "token": MASK}
