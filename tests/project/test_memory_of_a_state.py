"""What one of many files costs the agent in memory, in its parts: there may be fifty thousand of them."""

import tracemalloc

import pytest

from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Request

FILES = 1000


@pytest.fixture
def measured():
    """Says how many bytes for each file have been taken since it was asked last."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[0] / FILES
    tracemalloc.stop()


def test_a_compiled_state_takes_little(tmp_path, measured):
    """All caches for the next compilation included: 2.9 KiB; 4.3 KiB if each resource has its own field names."""
    lines = [
        f"/etc/some/place/f{number}:\n  file.managed:\n    - mode: '0644'\n    - contents: the same text\n"
        for number in range(FILES)
    ]
    one, all_of_them = tmp_path / "one", tmp_path / "all"
    for folder, text in ((one, lines[0]), (all_of_them, "".join(lines))):
        folder.mkdir()
        (folder / "files.sls").write_text(text)
    compiler = Compiler()
    compiler.compile(Request(states=one))
    before = measured()
    compilation = compiler.compile(Request(states=all_of_them))
    assert len(compilation.calls) == FILES
    assert measured() - before < 3300


async def test_a_watched_file_takes_little(tmp_path, measured):
    """0.6 KiB; it was 1.0 while each had sets of its own."""
    watcher = PathWatcher()
    watcher.subscribe([str(tmp_path / "first")], int)
    before = measured()
    kept = [watcher.subscribe([str(tmp_path / f"f{number}")], int) for number in range(FILES)]
    used = measured() - before
    watcher.close()
    assert len(kept) == FILES
    assert used < 800
