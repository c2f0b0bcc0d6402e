"""The setting `plugins`: refused values, locations of errors, and the files that are read for each plugin."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.configuration_files import ConfigurationFiles
from holdfast.agent.model.model import Field, Record
from holdfast.agent.model.package import to_json
from holdfast.agent.model.types import INTEGER, TEXT
from holdfast.agent.plugins import plugin_settings
from holdfast.agent.plugins.declared import PluginLoader
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.settings import SettingsError, load
from holdfast.resources.secrets import MASK, Redactor
from holdfast.states.errors import CompileError
from notes_package import CONFIG, NOTES, SCHEMA

SECRET = "correct horse battery"
WITH_SECRET = dataclasses.replace(
    NOTES,
    modules=(
        dataclasses.replace(
            NOTES.modules[0],
            records=(
                *(each for each in NOTES.modules[0].records if each is not CONFIG),
                Record("Config", CONFIG.docs, (Field("password", TEXT, secret=True, required=True),)),
            ),
        ),
    ),
)


class Config:
    """A directory with agent.yaml and the schema of a package."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.chmod(0o755)
        self.write("schema.json", SCHEMA)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """Write a file."""
        path = self.directory / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def plugin(self, **notes: Any) -> Path:
        """Write agent.yaml with one plugin."""
        given = {"schema": "schema.json", "command": ["/usr/bin/notes"], "config": {"directory": "/srv"}, **notes}
        given = {name: value for name, value in given.items() if value is not None}
        return self.write("agent.yaml", yaml.safe_dump({"plugins": {"notes": given}}, sort_keys=False))

    def loaded(self, **notes: Any) -> Any:
        """Return the plugin of these settings."""
        compiler = ConfigurationCompiler()
        compiler.load(load(self.plugin(**notes)))
        return compiler.plugins["notes"]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """The directory."""
    return Config(tmp_path)


def test_a_plugin_is_read_with_its_schema_and_its_configuration(config):
    """Relative paths start at the directory of agent.yaml, and the configuration is encoded for the plugin."""
    found = config.loaded(environment={"LANG": "C"}, memory=512)

    assert found.settings.schema == config.directory / "schema.json"
    assert found.schema.package == NOTES
    assert str(Payloads(found.schema).config(found.config)["directory"]) == "/srv"
    assert found == config.loaded(environment={"LANG": "C"}, memory=512)
    assert found != config.loaded(environment={"LANG": "C"}, memory=513)


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        ({"command": None}, "either `command`, which the agent runs, or `address`"),
        ({"address": "db:7400"}, "either `command`, which the agent runs, or `address`"),
        ({"command": ["bin/notes"]}, "absolute path of the program"),
        ({"command": ["/a", "b\0c"]}, "NUL"),
        ({"command": "/usr/bin/notes"}, "plugins.notes.command"),
        ({"memory": 1}, "plugins.notes.memory"),
        ({"environment": {"A B": "c"}}, "'A B' is no variable"),
        ({"environment": {"HOLDFAST_PLUGIN_SECRET": "3"}}, "the agent sets HOLDFAST_PLUGIN_SECRET itself"),
        ({"command": None, "address": "db"}, "write HOST:PORT"),
        ({"command": None, "address": "db:7400"}, "`config` is for a plugin with a `command`"),
        ({"command": None, "config": None, "address": "db:7400"}, "needs `ca` and `cert`"),
        ({"cert": "/x"}, "`cert` is for a plugin with an `address`"),
        ({"comand": ["/a"]}, "did you mean 'command'?"),
        ({"schema": None}, "write `schema`, the file schema.json of the package; only postgres can do without"),
    ],
)
def test_a_wrong_setting_is_refused_at_its_line(config, notes, told):
    """The error has the line, as for every other setting."""
    with pytest.raises(SettingsError) as error:
        load(config.plugin(**notes))

    problem = error.value.problems[0]
    assert told in f"{problem.message} {problem.hint}"
    assert problem.location.line >= 2


@pytest.mark.parametrize(
    ("notes", "line", "told"),
    [
        ({"schema": "other.json"}, 3, "cannot read .*other.json: No such file or directory"),
        ({"schema": "broken.json"}, 3, "broken.json is not the schema of a package"),
        ({"schema": "open.json"}, 3, "anyone may write it; chmod o-w"),
        ({"config": {"directory": "srv"}}, 7, "plugins.notes.config.directory.* an absolute path"),
        ({"config": {"directory": "/srv", "colour": "red"}}, 8, "no field 'colour'"),
        ({"config": {"directry": "/srv"}}, 7, "no field 'directry'; did you mean 'directory'"),
        ({"config": None}, 2, "directory' is wrong: it is required"),
    ],
)
def test_what_the_package_demands_is_checked_at_the_line_of_the_settings(config, notes, line, told):
    """The error is reported before anything starts."""
    config.write("broken.json", "{}")
    config.write("open.json", SCHEMA, 0o666)
    with pytest.raises(CompileError) as error:
        config.loaded(**notes)

    assert line in [each.location.line for each in error.value.problems if re.search(told, str(each))]


def test_the_name_of_a_plugin_is_that_of_its_package(config):
    """A state file then shows which plugin it needs."""
    path = config.plugin()
    config.write("agent.yaml", path.read_text().replace("notes:", "memos:"))
    with pytest.raises(CompileError, match="is the schema of the package 'notes'") as error:
        ConfigurationCompiler().load(load(path))

    assert error.value.problems[0].hint == "name the plugin 'notes'"


def test_without_the_libraries_of_plugins_the_settings_say_what_to_install(config, monkeypatch):
    """Hosts without plugins do not need these libraries."""
    monkeypatch.setattr(plugin_settings, "LIBRARIES", ("no_such_library",))
    with pytest.raises(CompileError, match="plugins need no_such_library, which is not installed") as error:
        config.loaded()

    assert error.value.problems[0].hint == "pip install 'holdfast[plugins]'"
    assert error.value.problems[0].location.line == 2


def test_all_problems_of_all_plugins_are_reported_together(config):
    """One reload shows every mistake."""
    text = "plugins:\n  notes: {schema: no.json, command: [/a]}\n  memos: {schema: none.json, command: [/a]}\n"
    with pytest.raises(CompileError) as error:
        ConfigurationCompiler().load(load(config.write("agent.yaml", text)))

    assert [each.location.line for each in error.value.problems] == [2, 3]


def test_a_secret_of_the_configuration_is_in_a_file(config):
    """The agent reads the file, so it can mask the secret in all texts of the plugin."""
    config.write("schema.json", to_json(WITH_SECRET))
    secret = config.write("password", f"{SECRET}\n", 0o600)
    found = config.loaded(config={"password_file": str(secret)})

    assert found.secrets == (SECRET,)
    assert Payloads(found.schema).config(found.config)["password"].value == SECRET
    assert SECRET not in repr(found.settings)
    assert Redactor({"secret": list(found.secrets)})(f"no user with {SECRET}") == f"no user with {MASK}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"password": SECRET}, "it is secret, and agent.yaml is not"),
        ({"password_file": "password"}, "write the absolute path of a file"),
        ({"password_file": "/no/such"}, "No such file or directory"),
        ({"password_file": "OPEN"}, "wrong: cannot use the secret in /"),
        ({}, "password' is wrong: it is required"),
    ],
)
def test_a_secret_that_is_no_safe_file_is_refused(config, given, told):
    """The error does not repeat it."""
    config.write("schema.json", to_json(WITH_SECRET))
    readable = config.write("open", SECRET)
    given = {name: str(readable) if value == "OPEN" else value for name, value in given.items()}
    with pytest.raises(CompileError) as error:
        config.loaded(config=given)

    assert told in str(error.value)
    assert SECRET not in error.value.problems[0].message


def test_schemas_and_secrets_are_files_of_the_configuration(config):
    """A change of one of them makes the agent reload."""
    settings = load(config.plugin(config={"directory": "/srv", "token_file": "/etc/token"}))
    files = ConfigurationFiles.of(settings, config.directory / "agent.yaml").files

    assert {config.directory / "schema.json", Path("/etc/token")} <= set(files)


def test_a_changed_schema_is_read_again(config):
    """An unchanged one is not parsed again."""
    compiler = ConfigurationCompiler()
    settings = load(config.plugin())
    compiler.load(settings)
    first = compiler.plugins["notes"]
    compiler.load(settings)
    again = compiler.plugins["notes"]
    config.write("schema.json", to_json(dataclasses.replace(NOTES, version="1.1.0")))
    compiler.load(settings)

    assert again.schema is first.schema
    assert compiler.plugins["notes"].schema.package.version == "1.1.0"
    assert compiler.plugins["notes"] != first


def test_integers_of_a_configuration_keep_their_type(config):
    """Integers are numbers in YAML, and text on the wire."""
    record = Record("Config", CONFIG.docs, (Field("port", INTEGER, default=5432),))
    module = dataclasses.replace(NOTES.modules[0], records=(NOTES.modules[0].records[0], record))
    config.write("schema.json", to_json(dataclasses.replace(NOTES, modules=(module,))))
    assert config.loaded(config={"port": 6000}).config == b'{"port":"6000"}'
    assert config.loaded(config={}).config == b'{"port":"5432"}'


def test_a_package_of_holdfast_itself_needs_no_schema_and_no_command(config):
    """Given values are used all the same. A mistake in the configuration is reported at its line."""
    brought = config.write("agent.yaml", "plugins:\n  postgres:\n")
    plain = load(brought).plugins["postgres"]
    config.write("agent.yaml", "plugins:\n  postgres: {command: [/bin/other], config: {port: 5433}}\n")
    given = load(brought).plugins["postgres"]

    assert (plain.schema.name, plain.schema.is_file(), plain.command[0]) == ("schema.json", True, sys.executable)
    assert Path(plain.command[1]).name == "postgres_plugin.py"
    assert (given.schema, given.command) == (plain.schema, ("/bin/other",))
    config.write("agent.yaml", "plugins:\n  postgres:\n    config:\n      prot: 5433\n")
    with pytest.raises(CompileError, match="there is no field 'prot'; did you mean 'port'") as told:
        PluginLoader().load(load(brought).plugins)
    assert told.value.problems[0].location.line == 4
