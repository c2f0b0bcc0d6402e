"""Message classes of protobuf without generated code, which would work only with one range of versions of protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

TYPES = {
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "enum": FieldDescriptorProto.TYPE_INT32,  # the same on the wire
}


def classes(package: str, messages: Mapping[str, str]) -> dict[str, Any]:
    """Return the classes of messages by name.

    `messages`: message -> its fields, separated by commas: number, name, type. `*` before the type: repeated; `?`: one
    of a group in which at most one is set.
    """
    file = FileDescriptorProto(name=f"holdfast/{package}.proto", package=package, syntax="proto3")
    for name, text in messages.items():
        message = file.message_type.add(name=name)
        for number, field, kind in (each.split() for each in text.split(", ") if each):
            _add(message, package, int(number), field, kind)
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add(message: Any, package: str, number: int, name: str, kind: str) -> None:
    plain = kind.lstrip("*?")
    added = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if kind.startswith("*"):
        added.label = FieldDescriptorProto.LABEL_REPEATED
    if kind.startswith("?"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="one_of")
        added.oneof_index = 0
    if plain in TYPES:
        added.type = TYPES[plain]
    else:
        added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{package}.{plain}"
