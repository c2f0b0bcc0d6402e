"""The examples of docs/northbound.md work as they stand."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from holdfast.agent.northbound.registry import registry

PAGE = Path(__file__).parents[2] / "docs/northbound.md"


async def test_the_examples_of_the_page_run() -> None:
    """The models, then the five methods."""
    models, methods = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": __name__}
    with registry.scratch():
        registry._names, registry._tables = {}, {}  # other tests may use the same names
        exec(compile(models, str(PAGE), "exec", dont_inherit=True), names)
        body = textwrap.indent(methods, "    ")
        exec(f"async def example():\n{body}\n    return changed, room, len(found)", names)
        assert await names["example"]() == ({"role", "version"}, "cellar", 1)
