"""Modules import each other in one direction only, so each can be read, tested and loaded without the others."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_modules_import_each_other() -> None:
    """Imports for type checking and imports inside functions count, too. The message names the modules of a circle."""
    graph = grimp.build_graph("holdfast", cache_dir=None)
    imports = TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})

    try:
        imports.prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise AssertionError(f"circle of imports: {circle}") from None


def test_packages_load_none_of_their_modules() -> None:
    """An import of one module does not load all others. `paths` is an exception: one API in several modules."""
    graph = grimp.build_graph("holdfast", exclude_type_checking_imports=True, cache_dir=None)
    loaded = {
        name: below
        for name in graph.modules - {"holdfast.resources.paths"}
        if (below := graph.find_modules_directly_imported_by(name) & graph.find_descendants(name))
    }

    assert not loaded, "the __init__.py of a package imports none of its modules: import them where they are used"
