"""Measures the compiler of packages: `holdfast idl compile` of 500 resources, to all targets.

    python bench/idl.py [--resources 500] [--repeat 3]

prints one line of JSON. Times are the seconds of the fastest repetition, each a process that writes all files anew
(`compile_s`), or compares them with the present ones (`check_s`). `lines_ratio` is the number of hand-written lines of
the provider of `holdfast idl new`, with its source in the IDL, divided by those of the same provider without the
generator (tests/idl/by_hand).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from harness import HOLDFAST, private_directory

from code_lines import hand_written

MODULE = 10
"""Resources of one source."""
HEAD = '''"""Part {number} of a system."""

from typing import Annotated, Final

from holdfast import idl

Port = Annotated[int, idl.limits(minimum=0, maximum=65535)]
"""A port."""
MOST: Final = 5


class Mode(idl.Enum):
    """How it runs."""

    ON = "on"
    OFF = "off"


@idl.ordered("first", "last")
class Range:
    """Some ports."""

    first: Port
    last: Port
    names: list[str] = idl.field(optional=True, shortest=1)
'''
RESOURCE = '''

class Thing{number}(idl.NamedResource, poll=60):
    """A thing.

    example:
      big-part.thing{number}:
        - title: a title
    """

    title: str = idl.field(replaces=True, longest=255)
    """What it is called."""
    mode: Mode = Mode.ON
    ranges: list[Range] = idl.field(default=[])
    """The ports that it uses."""
    tags: dict[str, str] = idl.field(default={{}})
    size: int | None = idl.field(optional=True, minimum=0)
    password: str = idl.field(optional=True, secret=True, write_only=True)
    other: "idl.Ref[Thing{other}]" = idl.field(optional=True)
    thing_id: str = idl.field(out=True)
    """Identifier of the thing."""
'''


def package(folder: Path, resources: int) -> None:
    """Write the sources of a package."""
    (folder / "part").mkdir(parents=True)
    (folder / "package.yaml").write_text("name: big\nversion: 1.0.0\ndescription: A large package.\n")
    for start in range(0, resources, MODULE):
        numbers = range(start, min(start + MODULE, resources))
        text = HEAD.format(number=start) + "".join(RESOURCE.format(number=each, other=start) for each in numbers)
        (folder / f"part/source_{start}.py").write_text(text)


def seconds(folder: Path, *options: str) -> float:
    """Return the duration of a process that compiles the package."""
    outputs = ["--out-pack", str(folder / "pack"), "--out-provider", str(folder / "provider")]
    before = time.perf_counter()
    subprocess.run(
        [*HOLDFAST, "idl", "compile", str(folder / "idl"), *outputs, *options], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - before


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--resources", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    times: dict[str, list[float]] = {"compile_s": [], "check_s": []}
    with private_directory() as folder:
        package(folder / "idl", options.resources)
        for _ in range(options.repeat):
            for name in ("pack", "provider"):
                shutil.rmtree(folder / name, ignore_errors=True)
            times["compile_s"].append(seconds(folder))
            times["check_s"].append(seconds(folder, "--check"))
    generated, by_hand = hand_written()
    figures = {name: round(min(each), 3) for name, each in times.items()}
    print(json.dumps({**figures, "lines_ratio": round(generated / by_hand, 3)}))


if __name__ == "__main__":
    main()
