"""YAML of existing files. Errors have line and column but no value, because it may be a secret."""

from __future__ import annotations

from typing import Any

import yaml

STANDARD = "tag:yaml.org,2002:"


class _Loader(yaml.CSafeLoader):
    """A loader whose errors say where a value does not match its tag."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return the value of a node. Raises `ConstructorError`."""
        if node.tag not in self.yaml_constructors:
            raise _error("a tag is unknown", node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            raise _error(f"a value is not a valid {node.tag.replace(STANDARD, '!!')}", node) from None


def _error(problem: str, node: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def loaded(text: bytes) -> Any:
    """Return the data of one document. Raises `ValueError`."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
