"""`holdfast idl`: what is written, what is never overwritten, and what breaks users."""

from __future__ import annotations

from holdfast.agent.idl.targets import BUILT_IN
from holdfast_process import in_process
from idl_package import write_package

HEADER = "# Made by `holdfast idl compile` from the package b, target python. Do not edit it.\n"


def compile_(folder, *options, check=0):
    """Compile the package of a test."""
    outputs = ("--out-pack", str(folder / "pack"), "--out-provider", str(folder / "provider"))
    return in_process("idl", "compile", str(folder / "idl"), *outputs, *options, check=check)


def test_compile_writes_the_schema_to_both_outputs_and_check_finds_stale_ones(tmp_path):
    """Nothing is written with --check, or if there is an error."""
    write_package(tmp_path / "idl", a="class A(idl.Resource):\n    a: int\n")
    compile_(tmp_path)
    first = (tmp_path / "pack/schema.json").read_text()
    compile_(tmp_path, "--check")
    write_package(tmp_path / "idl", a="class A(idl.Resource):\n    a: str\n")

    assert "[idl-stale]" in compile_(tmp_path, "--check", check=3).stderr
    write_package(tmp_path / "idl", a="class A(idl.Resource):\n    a: complex\n")
    assert "[idl-type]" in compile_(tmp_path, check=3).stderr
    assert (tmp_path / "pack/schema.json").read_text() == first
    assert (tmp_path / "provider/schema.json").read_text() == first


def test_a_file_written_by_hand_is_not_overwritten(tmp_path):
    """Then nothing at all is written."""
    write_package(tmp_path / "idl", a="class A(idl.Resource): pass\n")
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider/schema.json").write_text("mine")

    assert "[idl-output]" in compile_(tmp_path, check=3).stderr
    assert (tmp_path / "provider/schema.json").read_text() == "mine"
    assert not (tmp_path / "pack").exists()


def test_files_of_people_and_of_other_packages_stay(tmp_path):
    """Examples are a JSON file of one line, and the output of another package in a folder of its own."""
    write_package(tmp_path / "idl", a="class A(idl.Resource): pass\n")
    (tmp_path / "pack/more").mkdir(parents=True)
    (tmp_path / "pack/settings.json").write_text("{}")
    for name, text in (("schema.json", "{}"), ("stub.py", HEADER)):
        (tmp_path / "pack/more" / name).write_text(text)
    before = {each for each in (tmp_path / "pack").rglob("*") if each.is_file()}
    compile_(tmp_path)

    assert {each for each in (tmp_path / "pack").rglob("*") if each.is_file()} >= before


def test_files_of_other_targets_stay_and_those_of_removed_sources_go(tmp_path):
    """Each target may be compiled by itself, to the same directories."""
    write_package(tmp_path / "idl", a="class A(idl.Resource): pass\n", b="class B: pass\n")
    compile_(tmp_path)
    everything = {path for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "idl/b.py").unlink()
    compile_(tmp_path, "--target", "docs")
    removed = everything - {path for path in tmp_path.rglob("*") if path.is_file()}

    assert removed == {tmp_path / "idl/b.py", tmp_path / "pack/b.md"}
    for name in BUILT_IN:
        compile_(tmp_path, "--target", name)
    assert not [path for path in tmp_path.rglob("*") if path.stem.startswith("b")]
    assert "up to date" in compile_(tmp_path, "--check").stdout


def test_an_output_that_cannot_be_written_is_an_error(tmp_path):
    """A file in the place of a folder, or in that of its parent: the message names it, and nothing is written."""
    write_package(tmp_path / "idl", a="class A(idl.Resource): pass\n", b__c="class B(idl.Resource): pass\n")
    (tmp_path / "provider").mkdir()
    (tmp_path / "provider/b").write_text("mine")
    told = compile_(tmp_path, check=3).stderr
    (tmp_path / "provider/b").unlink()
    (tmp_path / "pack").write_text("mine")

    assert "provider/b/c_stub.py: cannot read this file: Not a directory [idl-output]" in told
    assert "pack/schema.json: cannot read this file: Not a directory [idl-output]" in compile_(tmp_path, check=3).stderr
    assert sorted(path.name for path in (tmp_path / "provider").iterdir()) == []


def test_changes_that_break_users_need_a_major_version(tmp_path):
    """A new required input, a removed field, a narrowed restriction."""
    write_package(tmp_path / "idl", a="class A(idl.Resource):\n    a: int\n    b: str\n")
    compile_(tmp_path)
    against = ("idl", "check", str(tmp_path / "idl"), "--against", str(tmp_path / "pack/schema.json"))
    changed = "class A(idl.Resource):\n    a: Annotated[int, idl.limits(minimum=1)]\n    c: str\n"
    in_process(*against, check=0)
    write_package(tmp_path / "idl", a=changed)
    told = in_process(*against, check=3).stderr

    assert told.count("[idl-breaking]") == 3
    assert "give the package the version 2.0.0" in told
    write_package(tmp_path / "idl", "2.0.0", a=changed)
    assert "permitted" in in_process(*against, check=0).stdout
