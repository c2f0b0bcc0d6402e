"""Runs of archive.extracted, for tests."""

from __future__ import annotations

from holdfast.resources.kinds.archive.extracted import Extracted


async def run(host, tmp_path, data=None, *, apply=True, **arguments):
    """Extract an archive into `out`; return whether it was as declared, and the report."""
    if data is not None:
        (tmp_path / "states" / "archive").write_bytes(data)
    state = Extracted.declare(str(tmp_path / "out"), **{"source": f"{tmp_path}/states/archive", **arguments})
    ctx = host.context("archive.extracted[x]")
    ctx.report = type(ctx.report)()
    return await state.check_apply(ctx, apply), ctx.report


def tree(top):
    """Return the entries below a directory: path -> content, target or None."""
    return {
        str(path.relative_to(top)): (
            str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else None
        )
        for path in sorted(top.rglob("*"))
    }


WANTED = {"app": None, "app/a": "one\n", "app/l": "sub/b", "app/sub": None, "app/sub/b": "two\n"}
