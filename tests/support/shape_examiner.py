"""Passes documents of every shape (`shape_fuzz.py`) to the code that reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from holdfast.agent import facts
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.control.decoding import decode_request
from holdfast.agent.insight.search import find
from holdfast.agent.paths import socket_of
from holdfast.agent.settings import load
from holdfast.resources.errors import HoldfastError
from holdfast.states.compile.automatic import automatic
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.declare.pillar import PillarCompiler
from holdfast.states.errors import CompileError
from holdfast.states.format.formatter import format_text
from holdfast.states.lint.inspect import inspect
from shape_fuzz import ODD, PARTS, Shapes
from tree_fuzz import GRAINS, PILLAR, in_time, show, told

SECONDS = 10
"""Processor time that one document may take."""


class Graph(list):
    """The vertices of a graph that contains no requested identity."""

    by_identity: ClassVar[dict[str, Any]] = {}


class KnownGrains(facts.GrainParts):
    """The grains of this host, read only once: the tests examine what the settings add to them."""

    def __init__(self) -> None:
        super().__init__()
        self._grains = super().read()

    def read(self) -> facts.Grains:
        """Return the grains."""
        return dict(self._grains)


class Examiner:
    """Passes documents to their readers, in a directory of its own. Each method raises an error for a violation."""

    def __init__(self, root: Path, shapes: Shapes) -> None:
        self.shapes, self.root = shapes, root
        for name in ("etc/states", "etc/pillar", "states", "pillar"):
            (root / name).mkdir(parents=True)
        for path in (root, *root.rglob("*")):
            path.chmod(0o755)
        self._states, self._pillars, self._grains = Compiler(), PillarCompiler(root / "pillar"), KnownGrains()
        self.written: dict[str, str | bytes] = {}
        """The content of the files, and the last request."""
        self._write("etc/states/top.sls", "base: {'*': [a], 'N@a': [{match: compound}, a]}")
        self._write("etc/states/a.sls", "a: test.nop")

    def once(self, part: str = "") -> None:
        """Examine one document, of the given part or of a random one."""
        self.shapes.odd = self.shapes.rng.choice(ODD)
        getattr(self, part or self.shapes.rng.choice(PARTS))()

    def settings(self) -> None:
        """Examine agent.yaml and everything that depends on it: grains, pillar, states."""
        path = self._write("etc/agent.yaml", self.shapes.agent_yaml())
        self._write("etc/grains", self.shapes.value() if self.shapes.rng.random() < 0.3 else "a: b")
        self._ends(lambda: socket_of(path, {}))
        settings = self._ends(lambda: load(path))
        if settings is not None:
            self._ends(lambda: facts.gather(settings, self._grains))
            self._ends(lambda: ConfigurationCompiler().compile(settings, grains=GRAINS))

    def pillar(self) -> None:
        """Examine a pillar file below a valid or a strange top file."""
        self._write("pillar/top.sls", self.shapes.top() if self.shapes.rng.random() < 0.2 else "base: {'*': [a]}")
        self._write("pillar/a.sls", self.shapes.pillar())
        self._ends(lambda: self._pillars.compile(self._asked("pillar")))

    def top(self) -> None:
        """Examine a top file of states."""
        self._write("states/top.sls", self.shapes.top())
        self._write("states/a.sls", "a: test.nop")
        self._compile()

    def state(self) -> None:
        """Examine a state file."""
        self._write("states/top.sls", "base: {'*': [a]}")
        self._write("states/a.sls", text := self.shapes.state())
        self._compile()
        if self.shapes.rng.random() < 0.2:
            self._ends(lambda: format_text(text, "a.sls"))
            with in_time(SECONDS):
                assert inspect(self._asked("states"))

    def request(self) -> None:
        """Examine a request, and the search for the resource that it names."""
        line = self.written["request"] = self.shapes.request()
        request = self._ends(lambda: decode_request(line))
        if request is not None:
            call = SimpleNamespace(low={"__id__": "a[b]", "name": "/x/a"})
            queue = SimpleNamespace(removed=False)
            vertices = [SimpleNamespace(call=call, identity="test.nop[a[b]]", queue=queue)]
            view = SimpleNamespace(graph=Graph(vertices), present=vertices)
            if identity := getattr(request, "identity", ""):
                self._ends(lambda: asyncio.run(find(identity, view, "explain")))
            lines = getattr(request, "lines", 0)
            json.dumps([0][-lines:] if lines > 0 else [])

    def _compile(self) -> None:
        made = self._ends(lambda: self._states.compile(self._asked("states")))
        if made is not None:
            automatic(made.calls)
            show(made.calls, made.high)

    def _asked(self, part: str) -> CompilerInputs:
        return CompilerInputs(
            self.root / part,
            grains=GRAINS,
            pillar=PILLAR,
            minion_id="web1",
            trusted_uids=frozenset({self.root.stat().st_uid}),
        )

    def _write(self, name: str, text: str) -> Path:
        path = self.root / name
        if self.written.get(name) != text:
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            path.chmod(0o644)
            self.written[name] = text
        return path

    def _ends(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call; None if it raises an error that a user understands."""
        try:
            with in_time(SECONDS):
                return call()
        except CompileError as error:
            problems = error.problems
        except HoldfastError as error:
            problems, said = None, str(error)
        assert problems or (problems is None and said), "an error without a message"
        for problem in problems or ():
            told(
                problem,
                veil=problem.location.file.startswith(str(self.root / "pillar")) and problem.code != "renderer-unknown",
            )
        return None
