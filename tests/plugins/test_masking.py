"""Secrets of a plugin's configuration appear in no error and no log, even if a text is cut."""

from __future__ import annotations

import dataclasses
import json

from holdfast.agent.model.package import to_json
from holdfast.agent.plugins import supervisor
from holdfast.agent.plugins.masking import redactor_of
from holdfast.agent.plugins.messages import message
from holdfast.resources.secrets import MASK
from notes_package import NOTE, NOTES
from plugin_bench import create


async def test_a_secret_of_the_configuration_appears_in_no_error_and_no_log(bench, tmp_path, caplog):
    """They are masked in all later texts of the provider."""
    secret = "correct horse battery"
    module = NOTES.modules[0]
    field = dataclasses.replace(NOTE.fields[-1], name="token", write_only=False)
    config = dataclasses.replace(module.records[1], fields=(module.records[1].fields[0], field))
    schema = to_json(
        dataclasses.replace(NOTES, modules=(dataclasses.replace(module, records=(module.records[0], config)),))
    )
    (bench.directory / "schema.json").write_text(schema)
    provider = bench.directory / "provider.py"
    text = provider.read_text().replace(
        'self.directory = Path(config["directory"])',
        'self.directory = Path(config["directory"]); self.token = config["token"].value',
    )
    text = text.replace(
        '        self.calls.append("create")\n', '        raise plugin.Permanent("refused: " + self.token)\n'
    )
    provider.write_text(text)
    file = tmp_path / "token"
    file.write_text(secret)
    file.chmod(0o600)
    plugin = await bench.use(config={"directory": str(tmp_path / "notes"), "token_file": str(file)})
    answer = await create(plugin, "web")

    assert answer.failure.message == f"refused: {MASK}"
    assert (answer.failure.code, secret in caplog.text) == ("permanent", False)


def test_a_secret_where_a_line_is_cut_is_masked():
    """The text is masked before it is cut, because a part of a secret would not be recognised."""
    from holdfast.agent.plugins.log_lines import VALUE, BoundedLog

    said = []
    log = BoundedLog(lambda _, fields: said.append(fields), redactor_of(["correct horse battery"]))
    text = "x" * (VALUE - 7) + "correct horse battery"
    log("info", {"message": text, "list": [text]})

    assert "corr" not in json.dumps(said)
    assert len(said[0]["message"]) == VALUE


async def test_a_secret_where_a_message_is_cut_is_masked(bench, monkeypatch):
    """The message is that of a plugin that cannot work."""
    monkeypatch.setattr(supervisor, "PROBE", 0.02)
    plugin = await bench.use()
    monkeypatch.setattr(plugin.supervisor, "_mask", redactor_of(["correct horse battery"]))
    await create(plugin, "web")
    answer = message["HealthResponse"](message="x" * 493 + "correct horse battery")

    async def call(*_: object) -> object:
        return answer

    monkeypatch.setattr(plugin.supervisor.ready.client, "call", call)
    await bench.becomes(lambda: "says that it cannot work" in bench.told)
    monkeypatch.undo()

    assert bench.told.endswith("xxx*******")
