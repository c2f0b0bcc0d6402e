"""The rule about state files that no top file and no other state file reaches."""

from __future__ import annotations

import pytest

TOP = "base:\n  'web*':\n    - web\n"
NOP = "{}: test.nop\n".format


@pytest.mark.parametrize(
    "files",
    [
        {"top.sls": "base:\n  'db*':\n    - lost\n", "web.sls": NOP("w"), "other.sls": NOP("o")},
        {"top.sls": TOP + "    - {{ grains.os }}-roles\n", "web.sls": NOP("w")},
    ],
    ids=["named for another host", "named by a glob"],
)
def test_only_what_nothing_names_is_told(files, look):
    """The rule reports only files that nothing names; the top file counts for every host."""
    report = look({"lost.sls": NOP("lost")} | files | {"Debian-roles.sls": NOP("roles")})

    told = {warning.location.file.rpartition("/")[2] for warning in report.warnings if warning.code == "file-unreached"}
    assert told == ({"web.sls", "other.sls", "Debian-roles.sls"} if "other.sls" in files else {"lost.sls"})


@pytest.mark.parametrize(
    "web",
    [
        "include: [lost]\n",
        "include: [ # why\n    lost, # a comment\n  ]\n",
        "include:\n  - .lost\n",
        "include:\n  # a comment\n\n  - lost # why\n",
        "include:\n- 'lost'\n",
        "include:\n  - base: lost\n",
        "{% if grains.os == 'Plan9' %}\ninclude:\n  {% for x in [] %}\n  - l{{ x }}t\n  {% endfor %}\n{% endif %}\n",
        "include:\n  - l*t\n",
        "{% if false %}{% from './lost.sls' import x %}{% endif %}\n",
        "{% if false %}{% include 'lost.sls' %}{% endif %}\n",
    ],
)
def test_what_a_reached_file_includes_or_imports_is_reached(web, warnings):
    """Includes and imports count in any spelling, also in branches for other hosts."""
    assert warnings({"top.sls": TOP, "web.sls": web + NOP("w"), "lost.sls": NOP("lost")}) == []


@pytest.mark.parametrize(
    "top",
    [
        "base:\n  '*': [web]\n",
        "base: {'*': [{match: glob}, web]}\n",
        "base:\n  '*': [ # a comment\n    'web' # why\n  ]\n",
    ],
)
def test_top_files_may_have_lists_in_brackets(top, warnings):
    """The rule reads lists in brackets, on one line or on several."""
    assert warnings({"top.sls": top, "web.sls": NOP("w")}) == []


def test_what_only_an_unreached_file_includes_is_unreached(warnings):
    """A loop of includes reaches nothing. A name with `_`, or a comment in the file, silences the warning."""
    found = warnings(
        {
            "top.sls": TOP,
            "web.sls": NOP("w"),
            "a.sls": "include: [b]\n",
            "b.sls": "include: [a]\n",
            "_draft.sls": NOP("d"),
            "by_hand.sls": "# For emergencies.\n# holdfast: ignore file-unreached\n" + NOP("h"),
        }
    )

    assert [(warning.code, warning.location.line, warning.location.file[-5:]) for warning in found] == [
        ("file-unreached", 0, "a.sls"),
        ("file-unreached", 0, "b.sls"),
    ]


@pytest.mark.parametrize(
    "top",
    ["{% include 'more.jinja' %}\n", "{% import_yaml 'm.yaml' as m %}\nbase:\n  '*': [web]\n", "#!json\n{}\n", None],
    ids=str,
)
def test_silent_where_it_cannot_be_known(top, warnings):
    """The rule reports nothing if the top file takes its names from elsewhere, or has none."""
    files = {"web.sls": NOP("w"), "lost.sls": NOP("lost"), "more.jinja": "base:\n  '*': [web]\n", "m.yaml": "a: 1\n"}

    assert warnings(files if top is None else files | {"top.sls": top}) == []


def test_silent_when_names_are_asked_for(warnings):
    """The rule reports nothing if the caller requests names, because the top file then has no effect."""
    assert warnings({"top.sls": TOP, "web.sls": NOP("w"), "lost.sls": NOP("lost")}, "web") == []
