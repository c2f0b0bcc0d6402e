"""The provider of `holdfast idl new`, written by hand: against the protocol alone, without stub and library.

A test runs both through the same calls, and `bench/idl.py` counts the lines. It does what a generated stub and
`holdfast.plugin` do for this one resource, and no more. Only the messages of the protocol are taken from Holdfast: they
stand for what protoc generates.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import json
import logging
import os
import posixpath
import re
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
from asyncinotify import Inotify, Mask

from holdfast.agent.plugins.messages import message

TOKEN = "demo:notes:Note"
SERVICE = "holdfast.plugin.v1.Provider"
SECRET = "holdfast-secret"
PROTOCOL = 1
LARGEST = 64 << 20
FILE_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME = 200
SCHEMA = (Path(__file__).parent / "schema.json").read_text(encoding="utf-8")
METHODS = {
    "Handshake": "Handshake",
    "GetSchema": "GetSchema",
    "CheckConfig": "Config",
    "Configure": "Config",
    "Check": "Check",
    "Diff": "Diff",
    "Read": "Read",
    "Create": "Create",
    "Update": "Update",
    "Delete": "Delete",
    "Cancel": "Cancel",
    "Health": "Health",
    "UpgradeState": "UpgradeState",
}
RESPONSES = {"Create": "Change", "Update": "Change", "Delete": "Change"}
LOG = logging.getLogger("provider")
UNKNOWN = object()


@dataclasses.dataclass(frozen=True)
class Violation:
    """A rule that a value breaks."""

    code: str
    path: str
    text: str


class InvalidValues(Exception):
    """Values break rules."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("; ".join(f"{each.path}: {each.text}" for each in violations))
        self.violations = violations


class Failure(Exception):
    """A call has failed."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclasses.dataclass(frozen=True)
class NoteInputs:
    """What a declaration says; None is not given."""

    name: Any = None
    lines: Any = None


@dataclasses.dataclass(frozen=True)
class NoteState:
    """A note as it is."""

    name: str
    lines: list[str]
    size: int


# -- values ------------------------------------------------------------------------------------------------------


def load(data: bytes) -> dict[str, Any]:
    """Return the members of a payload."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidValues([Violation("form", "", f"the payload is not JSON: {error}")]) from None
    if not isinstance(found, dict):
        raise InvalidValues([Violation("type", "", "it must be a mapping")])
    return found


def unwrap(value: Any) -> Any:
    """Return a value of the wire without the objects that stand for others."""
    if isinstance(value, dict) and len(value) == 1:
        if value.get("$unknown") is True:
            return UNKNOWN
        if "$secret" in value:
            return unwrap(value["$secret"])
    return value


def check_name(value: Any, found: list[Violation]) -> None:
    """Record what is wrong with a name."""
    if value is UNKNOWN:
        return
    if not isinstance(value, str):
        found.append(Violation("type", "name", "it must be text"))
    elif len(value) > LONGEST_NAME:
        found.append(Violation("length", "name", f"it must have at most {LONGEST_NAME} characters, not {len(value)}"))
    elif not FILE_NAME.fullmatch(value):
        found.append(Violation("pattern", "name", f"it must match {FILE_NAME.pattern!r}"))


def check_lines(value: Any, found: list[Violation]) -> Any:
    """Record what is wrong with lines, and return them."""
    if value is UNKNOWN:
        return value
    if not isinstance(value, list):
        found.append(Violation("type", "lines", "it must be a list"))
        return value
    lines = [unwrap(each) for each in value]
    for number, line in enumerate(lines):
        if line is UNKNOWN:
            continue
        if not isinstance(line, str):
            found.append(Violation("type", f"lines[{number}]", "it must be text"))
        elif "\n" in line:
            found.append(Violation("pattern", f"lines[{number}]", "it must match '[^\\\\n]*'"))
    return lines


def decode_inputs(data: bytes, *, defaults: bool = False) -> NoteInputs:
    """Return inputs; raise with everything that is wrong with them."""
    members, found = load(data), list[Violation]()
    values: dict[str, Any] = {}
    for key, item in members.items():
        value = unwrap(item)
        if key == "name":
            check_name(value, found)
            values["name"] = value
        elif key == "lines":
            values["lines"] = check_lines(value, found)
        elif key == "size":
            found.append(Violation("unexpected", "size", "the provider sets it, so it is not an argument"))
        else:
            found.append(Violation("unexpected", key, f"there is no field {key!r}"))
    if found:
        raise InvalidValues(found)
    if defaults:
        values.setdefault("lines", [])
    return NoteInputs(**values)


def encode_inputs(inputs: NoteInputs) -> bytes:
    """Return the payload of inputs."""
    members: dict[str, Any] = {}
    for name, value in (("name", inputs.name), ("lines", inputs.lines)):
        if value is UNKNOWN:
            members[name] = {"$unknown": True}
        elif isinstance(value, list):
            members[name] = [{"$unknown": True} if each is UNKNOWN else each for each in value]
        elif value is not None:
            members[name] = value
    return json.dumps(members).encode()


def decode_state(data: bytes) -> NoteState:
    """Return a state; raise with everything that is wrong with it."""
    members, found = load(data), list[Violation]()
    for key in ("name", "lines", "size"):
        if key not in members and key == "size":
            found.append(Violation("missing", key, "it is required"))
    for key in members:
        if key not in ("name", "lines", "size"):
            found.append(Violation("unexpected", key, f"there is no field {key!r}"))
    check_name(members.get("name", "x"), found)
    lines = check_lines(members.get("lines", []), found)
    size = members.get("size", "0")
    if not isinstance(size, str) or not re.fullmatch("-?[0-9]{1,19}", size):
        found.append(Violation("type", "size", "it must be a whole number"))
    if found:
        raise InvalidValues(found)
    return NoteState(members.get("name", ""), lines, int(size))


def encode_state(state: NoteState | None, inputs: NoteInputs | None = None) -> bytes:
    """Return the payload of a state, or of what a change will give."""
    if state is not None and inputs is None:
        return json.dumps({"name": state.name, "lines": state.lines, "size": str(state.size)}).encode()
    members = json.loads(encode_inputs(inputs or NoteInputs()))
    if state is not None:
        members = {**json.loads(encode_state(state)), **members}
    return json.dumps({"size": {"$unknown": True}, **members}).encode()


def decode_config(data: bytes) -> Path:
    """Return the directory; raise with everything that is wrong with the configuration."""
    members, found = load(data), list[Violation]()
    directory = unwrap(members.get("directory"))
    for key in members:
        if key != "directory":
            found.append(Violation("unexpected", key, f"there is no field {key!r}"))
        elif not isinstance(directory, str):
            found.append(Violation("type", "directory", "it must be text"))
        elif not directory.startswith("/") or "\0" in directory or ".." in directory.split("/"):
            found.append(Violation("form", "directory", "it must be an absolute path without '..'"))
    if "directory" not in members:
        found.append(Violation("missing", "directory", "it is required"))
    if found:
        raise InvalidValues(found)
    return Path(posixpath.normpath(str(directory)))


# -- notes -------------------------------------------------------------------------------------------------------


class Notes:
    """Notes as files."""

    def __init__(self) -> None:
        self.directory = Path()

    def configure(self, directory: Path) -> None:
        """Receive the configuration."""
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> NoteState | None:
        """Return a note."""
        try:
            content = (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None
        *lines, last = content.decode(errors="replace").split("\n")
        return NoteState(name, [*lines, last] if last else lines, len(content))

    def write(self, name: str, lines: list[str]) -> NoteState:
        """Replace a note."""
        content = "".join(f"{line}\n" for line in lines).encode()
        hidden = self.directory / f".{name}.new"
        hidden.write_bytes(content)
        hidden.replace(self.directory / name)
        return NoteState(name, lines, len(content))

    def delete(self, name: str) -> None:
        """Remove a note."""
        (self.directory / name).unlink(missing_ok=True)

    async def watch(self) -> AsyncIterator[str]:
        """Yield an empty text when armed, and then the name of each note that changes."""
        end = Mask.DELETE_SELF | Mask.MOVE_SELF
        with Inotify() as inotify:
            inotify.add_watch(self.directory, Mask.CLOSE_WRITE | Mask.CREATE | Mask.DELETE | Mask.MOVE | end)
            yield ""
            async for event in inotify:
                if event.mask & end:
                    raise Failure("retry", f"the directory {self.directory} is gone")
                if event.mask & Mask.Q_OVERFLOW or not str(event.name or "").startswith("."):
                    yield str(event.name or "")


# -- calls -------------------------------------------------------------------------------------------------------


class Calls:
    """Answers the calls of the protocol."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.running: set[asyncio.Task[Any]] = set()

    async def answer(self, method: str, request: Any) -> Any:
        """Return the response to a call; failures are part of it."""
        response = message[f"{RESPONSES.get(method, METHODS[method])}Response"]
        handler: Callable[[Any], Awaitable[Any]] = getattr(self, f"on_{method.lower()}")
        task = asyncio.ensure_future(handler(request))
        self.running.add(task)
        try:
            return await task
        except InvalidValues as error:
            return response(violations=messages(error.violations))
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                task.cancel()
                raise
            return response(failure=message["Failure"](code="cancelled", message="cancelled"))
        except Exception as error:  # noqa: BLE001 - anything may happen
            return response(failure=failure(method, error))
        finally:
            self.running.discard(task)

    async def on_handshake(self, request: Any) -> Any:
        """Agree on a version."""
        if not request.oldest <= PROTOCOL <= request.newest:
            raise Failure("permanent", f"the plugin speaks version {PROTOCOL} of the protocol")
        package = json.loads(SCHEMA)
        if request.package != package["name"]:
            raise Failure("permanent", f"the plugin provides {package['name']!r}, not {request.package!r}")
        return message["HandshakeResponse"](
            protocol=PROTOCOL,
            capabilities=["events", "read-many"],
            package=package["name"],
            version=package["version"],
            schema_digest=hashlib.sha256(SCHEMA.encode()).hexdigest(),
        )

    async def on_getschema(self, _: Any) -> Any:
        """Return the schema."""
        return message["GetSchemaResponse"](schema=SCHEMA.encode())

    async def on_checkconfig(self, request: Any) -> Any:
        """Validate a configuration."""
        decode_config(request.config)
        return message["ConfigResponse"]()

    async def on_configure(self, request: Any) -> Any:
        """Use a configuration."""
        self.notes.configure(decode_config(request.config))
        return message["ConfigResponse"]()

    async def on_check(self, request: Any) -> Any:
        """Complete inputs."""
        demand_token(request.subject)
        inputs = decode_inputs(request.inputs, defaults=True)
        if inputs.name is None:
            before = decode_inputs(request.old_inputs).name if request.old_inputs else None
            inputs = dataclasses.replace(inputs, name=before or f"note-{secrets.token_hex(4)}")
        return message["CheckResponse"](inputs=encode_inputs(inputs))

    async def on_diff(self, request: Any) -> Any:
        """Compare inputs with a state."""
        demand_token(request.subject)
        state, inputs, found = decode_state(request.state), decode_inputs(request.inputs), []
        if inputs.name is not None and inputs.name != state.name:
            found.append(message["Difference"](path="name", kind="change", replaces=True))
        if inputs.lines is not None and inputs.lines != state.lines:
            found.append(message["Difference"](path="lines", kind="change", replaces=False))
        return message["DiffResponse"](differences=found)

    async def on_read(self, request: Any) -> Any:
        """Read several notes; each fails by itself."""
        return message["ReadResponse"](results=[self.read_one(item) for item in request.items])

    def read_one(self, item: Any) -> Any:
        """Read one note."""
        try:
            demand_token(item.subject)
            inputs = decode_inputs(item.inputs)
            state = self.notes.read(item.subject.id or str(inputs.name))
        except InvalidValues as error:
            return message["ReadResult"](violations=messages(error.violations))
        except Exception as error:  # noqa: BLE001 - anything may happen
            return message["ReadResult"](failure=failure("Read", error))
        if state is None:
            return message["ReadResult"](exists=False)
        return message["ReadResult"](exists=True, id=state.name, state=encode_state(state))

    async def on_create(self, request: Any) -> Any:
        """Create a note."""
        demand_token(request.subject)
        inputs = decode_inputs(request.inputs)
        if request.dry_run:
            return message["ChangeResponse"](state=encode_state(None, inputs))
        return self.changed(str(inputs.name), inputs)

    async def on_update(self, request: Any) -> Any:
        """Change a note."""
        demand_token(request.subject)
        state, inputs = decode_state(request.state), decode_inputs(request.inputs)
        if request.dry_run:
            return message["ChangeResponse"](id=request.subject.id, state=encode_state(state, inputs))
        return self.changed(request.subject.id, inputs)

    def changed(self, name: str, inputs: NoteInputs) -> Any:
        """Write a note."""
        state = self.notes.write(name, inputs.lines or [])
        return message["ChangeResponse"](id=name, state=encode_state(state))

    async def on_delete(self, request: Any) -> Any:
        """Delete a note."""
        demand_token(request.subject)
        decode_state(request.state)
        if not request.dry_run:
            self.notes.delete(request.subject.id)
        return message["ChangeResponse"](id=request.subject.id)

    async def on_cancel(self, _: Any) -> Any:
        """End what is running."""
        for task in self.running - {asyncio.current_task()}:
            task.cancel()
        return message["CancelResponse"]()

    async def on_health(self, _: Any) -> Any:
        """Say that the provider works."""
        return message["HealthResponse"](serving=True)

    async def on_upgradestate(self, request: Any) -> Any:
        """There is no older version."""
        raise Failure("unsupported", f"there is no version {request.subject.version}")

    async def watch(self, request: Any) -> AsyncIterator[Any]:
        """Stream changes."""
        armed = False
        async for name in self.notes.watch():
            if armed:
                yield message["WatchEvent"](token=TOKEN, id=name, relist=not name)
            else:
                armed = True
                yield message["WatchEvent"](armed=True)


def demand_token(subject: Any) -> None:
    """Refuse other resources."""
    if subject.token != TOKEN:
        raise Failure("permanent", f"there is no resource {subject.token}")


def messages(violations: list[Violation]) -> list[Any]:
    """Return violations as messages."""
    return [message["Violation"](code=each.code, path=each.path, message=each.text) for each in violations]


def failure(method: str, error: Exception) -> Any:
    """Return an exception as a message."""
    if isinstance(error, Failure):
        return message["Failure"](code=error.code, message=str(error))
    if isinstance(error, (TimeoutError, ConnectionError)):
        return message["Failure"](code="retry", message=str(error) or "the time has run out")
    LOG.error("%s has failed: %s", method, type(error).__name__)
    return message["Failure"](code="fault", message=f"{type(error).__name__}: {error}"[:2000])


# -- server ------------------------------------------------------------------------------------------------------


class Handlers(grpc.GenericRpcHandler):
    """The methods of the service."""

    def __init__(self, calls: Calls, secret: str) -> None:
        self.calls = calls
        self.secret = secret.encode()

    def service(self, details: Any) -> Any:
        """Return the handler of a method."""
        package, _, name = details.method.strip("/").rpartition("/")
        if package != SERVICE or (name not in METHODS and name != "Watch"):
            return None
        given = next((value for key, value in details.invocation_metadata if key == SECRET), "")
        if not hmac.compare_digest(str(given).encode(), self.secret):
            return grpc.unary_unary_rpc_method_handler(self.refuse)
        if name == "Watch":
            read = message["WatchRequest"].FromString
            return grpc.unary_stream_rpc_method_handler(self.watch, read, lambda event: event.SerializeToString())
        read = message[f"{METHODS[name]}Request"].FromString

        async def answer(request: Any, _: Any) -> Any:
            return await self.calls.answer(name, request)

        return grpc.unary_unary_rpc_method_handler(answer, read, lambda response: response.SerializeToString())

    async def refuse(self, _: Any, context: Any) -> None:
        """Refuse a call without the secret."""
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the call does not carry the secret of this start")

    async def watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Stream events."""
        try:
            async for event in self.calls.watch(request):
                yield event
        except Exception as error:  # noqa: BLE001 - anything may happen
            await context.abort(grpc.StatusCode.ABORTED, str(error))


class JsonLines(logging.Formatter):
    """One object of JSON a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        said: Mapping[str, Any] = {"level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps({"time": time.time(), **said})


async def serve(path: str, secret: str) -> None:
    """Serve until standard input ends."""
    os.umask(0o077)
    options = [("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST)]
    server = grpc.aio.server(options=[*options, ("grpc.http2.min_ping_interval_without_data_ms", 5000)])
    server.add_generic_rpc_handlers([Handlers(Calls(Notes()), secret)])
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    sys.stdout.write("holdfast-plugin ready\n")
    sys.stdout.flush()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    await ended.wait()
    await server.stop(5)


def main() -> None:
    """Serve the agent that has started this process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    with os.fdopen(int(os.environ.pop("HOLDFAST_PLUGIN_SECRET"))) as file:
        secret = file.read().strip()
    asyncio.run(serve(sys.argv[1], secret))


if __name__ == "__main__":
    main()
