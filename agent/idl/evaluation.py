"""Evaluates checked sources in a child that can only compute (`sandbox`), and validates its untrusted answer."""

from __future__ import annotations

import base64
import binascii
import json
import marshal
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from holdfast.agent.model.reading import parse

DEADLINE = 30.0
"""Seconds until the child is ended; its CPU time has a limit of its own."""
ANSWER = 64 << 20
"""Most bytes of an answer."""


class EvaluationError(Exception):
    """The sources could not be evaluated; `module` and `line` are the place, if it is known."""

    def __init__(self, message: str, module: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.module, self.line = module, line


@dataclass(frozen=True)
class ClassAnswer:
    """The evaluated content of a class."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the class, with those that it inherits."""
    rules: tuple[tuple[Any, ...], ...] = ()
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its own fields -> the options of each, without those that have their default."""
    members: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class ModuleAnswer:
    """The evaluated content of a module."""

    constants: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[Mapping[str, Any], ...] = ()
    """The restrictions in its types, in the order of `ModuleSyntax.limits`."""
    classes: Mapping[str, ClassAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class FailureAnswer:
    """The first error that a module raised."""

    module: str
    line: int
    error: str


@dataclass(frozen=True)
class ChildAnswer:
    """The answer of the child."""

    modules: Mapping[str, ModuleAnswer] = field(default_factory=dict)
    failed: FailureAnswer | None = None
    unconfined: str = ""


def evaluate(modules: Sequence[tuple[str, CodeType]], deadline: float = DEADLINE) -> Mapping[str, ModuleAnswer]:
    """Return the content of the modules, which are executed in this order. Raises `EvaluationError`."""
    text = _run(marshal.dumps((os.getpid(), list(modules))), deadline)
    try:
        answer = parse(ChildAnswer, json.loads(text, parse_constant=_no_number))
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"the evaluation gave a wrong answer: {error}") from None
    if answer.unconfined:
        raise EvaluationError(f"sources are evaluated in a confined process, which fails here: {answer.unconfined}")
    if answer.failed is not None:
        raise EvaluationError(answer.failed.error, answer.failed.module, answer.failed.line)
    return answer.modules


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _run(request: bytes, deadline: float) -> bytes:
    """Return the answer of a child to a request. Raises `EvaluationError`."""
    given = os.memfd_create("holdfast-idl")
    try:
        with open(given, "wb", closefd=False) as stream:
            stream.write(request)
        os.lseek(given, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "holdfast.agent.idl.child"],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
    finally:
        os.close(given)
    try:
        answer = _read(process, time.monotonic() + deadline)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return answer


def _read(process: subprocess.Popen[bytes], end: float) -> bytes:
    """Return the complete output of a process that ends in time. Raises `EvaluationError`."""
    if process.stdout is None:
        raise EvaluationError("the evaluation has no output")
    chunks: list[bytes] = []
    size, number = 0, process.stdout.fileno()
    while select.select([number], [], [], max(0.0, end - time.monotonic()))[0]:
        chunk = os.read(number, 1 << 16)
        size += len(chunk)
        if size > ANSWER:
            raise EvaluationError(f"the evaluation gave an answer of more than {ANSWER >> 20} MB")
        if not chunk:
            return _whole(process, b"".join(chunks), end)
        chunks.append(chunk)
    raise EvaluationError("the evaluation takes too long")


def _whole(process: subprocess.Popen[bytes], answer: bytes, end: float) -> bytes:
    """Return the answer of a process that has closed its output, once the process has ended without an error."""
    try:
        code = process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise EvaluationError("the evaluation takes too long") from None
    if code == -signal.SIGKILL:
        raise EvaluationError("the evaluation takes too much CPU time")
    if code != 0:
        raise EvaluationError(f"the evaluation ended with status {code}")
    return answer


def value_of(data: Any) -> Any:
    """Return the value that the child has described (`child.plain`). Raises `ValueError`."""
    if isinstance(data, list):
        return [value_of(item) for item in data]
    if not isinstance(data, dict):
        return data
    if isinstance(text := data.get("bytes"), str):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
    pairs = data.get("map")
    if not isinstance(pairs, list) or not all(isinstance(each, list) and len(each) == 2 for each in pairs):
        raise ValueError("it is neither bytes nor a mapping")
    return {str(key): value_of(item) for key, item in pairs}
