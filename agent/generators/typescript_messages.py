"""Writes the messages of the protocol for TypeScript, from provider.proto: `scripts/reference` runs this module."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.agent.plugins.messages import FIELD, MESSAGE, METHODS, NEWEST, OLDEST, PACKAGE, READY, SECRET, START

HEAD = """/**
 * The messages and methods of the protocol. `scripts/reference` writes this file from provider.proto.
 *
 * A message that has been received has all of its members; one that is sent may leave out those with their default.
 */

import type { Messages } from "./protobuf.js";

"""
TYPES = {"int64": "number", "string": "string", "bytes": "Uint8Array", "bool": "boolean"}
"""Type of a field -> its type in TypeScript, if that differs."""
NAMES = {
    "OLDEST": OLDEST,
    "NEWEST": NEWEST,
    "SERVICE": f"{PACKAGE}.Provider",
    "SECRET": SECRET,
    "START": START,
    "READY": READY,
}
"""Constants of the protocol, with their values."""


def written() -> str:
    """Return the text of messages.ts."""
    proto = Path(__file__).parents[1] / "plugins/provider.proto"
    text = re.sub("//.*", "", proto.read_text(encoding="utf-8"))
    found = {name: FIELD.findall(body) for name, body in MESSAGE.findall(text)}
    parts = [f"export const {name} = {_word(value)};" for name, value in NAMES.items()]
    parts += ["\n".join(_interface(name, fields)) for name, fields in found.items()]
    parts += ["\n".join(_table(found)), "\n".join(_methods())]
    return HEAD + "\n\n".join(parts) + "\n"


def _word(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _interface(name: str, fields: list[tuple[str, ...]]) -> Iterator[str]:
    if not fields:
        yield f"export interface {name} {{}}"
        return
    yield f"export interface {name} {{"
    for many, kind, field, _ in fields:
        word = TYPES.get(kind, kind)
        yield f"  {field}: {f'{word}[]' if many else word};"
    yield "}"


def _table(found: dict[str, list[tuple[str, ...]]]) -> Iterator[str]:
    yield "export const MESSAGES: Messages = {"
    for name, fields in found.items():
        yield f"  {name}: ["
        for many, kind, field, number in fields:
            repeated = "true" if many else "false"
            yield f'    {{ number: {number}, name: "{field}", type: "{kind}", repeated: {repeated} }},'
        yield "  ],"
    yield "};"


def _methods() -> Iterator[str]:
    for end, title in (("request", "Requests"), ("response", "Responses")):
        yield f"export interface {title} {{"
        for each in METHODS.values():
            yield f"  {each.name}: {getattr(each, end)};"
        yield "}\n"
    yield "export type Method = keyof Requests;\n"
    yield "export interface MethodOf {"
    yield "  readonly request: string;\n  readonly response: string;\n  readonly streams: boolean;\n}\n"
    yield "export const METHODS: {"
    yield "  readonly [M in Method]: MethodOf;"
    yield "} = {"
    for each in METHODS.values():
        streams = "true" if each.streams else "false"
        yield f'  {each.name}: {{ request: "{each.request}", response: "{each.response}", streams: {streams} }},'
    yield "};"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(written(), encoding="utf-8")
