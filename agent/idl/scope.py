"""Resolves names: every module sees its own declarations and those that it imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from holdfast.agent.idl.declared import ClassSyntax, Declaration, ModuleSyntax, name_of, word_of

Family = Literal["struct", "config", "resource", "function", "enumeration"]
BASES: Mapping[str, Family] = {
    "Struct": "struct",
    "Config": "config",
    "Resource": "resource",
    "NamedResource": "resource",
    "Function": "function",
    "Enum": "enumeration",
}
"""Word of the language from which a class may derive -> the family of the class."""


class FoundName(NamedTuple):
    """The meaning of a name."""

    module: ModuleSyntax
    declared: Declaration

    @property
    def qualified(self) -> str:
        """The qualified name in the model: `ec2/vpc:Vpc`."""
        return f"{self.module.name}:{self.declared.name}"


class FoundClass(NamedTuple):
    """A class with its module."""

    module: ModuleSyntax
    declared: ClassSyntax

    @property
    def qualified(self) -> str:
        """The qualified name in the model."""
        return f"{self.module.name}:{self.declared.name}"


class SourceScope:
    """All modules of a package."""

    def __init__(self, modules: Mapping[str, ModuleSyntax]) -> None:
        self.modules = modules
        self._families: dict[tuple[str, str], Family] = {}

    def find(self, module: ModuleSyntax, name: str) -> FoundName | None:
        """Return the meaning of a name in a module."""
        if name in module.declared:
            return FoundName(module, module.declared[name])
        imported = module.imports.get(name)
        home = self.modules.get(imported.module) if imported else None
        if imported is None or home is None or imported.name not in home.declared:
            return None
        return FoundName(home, home.declared[imported.name])

    def declared(self, qualified: str) -> Declaration | None:
        """Return the declaration with a qualified name."""
        module, _, name = qualified.partition(":")
        home = self.modules.get(module)
        return home.declared.get(name) if home else None

    def names(self, module: ModuleSyntax) -> list[str]:
        """Return all names that a module sees."""
        return [*module.declared, *module.imports]

    def base(self, module: ModuleSyntax, made: ClassSyntax) -> FoundClass | None:
        """Return the class of the package from which a class derives."""
        found = self.find(module, name_of(made.node.bases[0])) if made.node.bases else None
        if found is None or not isinstance(found.declared, ClassSyntax):
            return None
        return FoundClass(found.module, found.declared)

    def family(self, module: ModuleSyntax, made: ClassSyntax) -> Family:
        """Return the family of a class; a struct if its bases are wrong."""
        key = module.name, made.name
        if key not in self._families:
            self._families[key] = "struct"  # for classes that derive from themselves
            base = self.base(module, made)
            if base is not None:
                self._families[key] = self.family(base.module, base.declared)
            else:
                self._families[key] = BASES.get(word_of(made.node.bases[0]) if made.node.bases else "", "struct")
        return self._families[key]

    def classes(self) -> Iterator[tuple[ModuleSyntax, ClassSyntax]]:
        """Yield all classes with their modules."""
        for module in self.modules.values():
            for each in module.declared.values():
                if isinstance(each, ClassSyntax):
                    yield module, each

    def lineage(self, module: ModuleSyntax, made: ClassSyntax) -> Iterator[FoundClass]:
        """Yield a class and those from which it derives, the nearest first, each once."""
        seen: set[str] = set()
        here: FoundClass | None = FoundClass(module, made)
        while here is not None and here.qualified not in seen:
            seen.add(here.qualified)
            yield here
            here = self.base(here.module, here.declared)

    def derives_from_itself(self, module: ModuleSyntax, made: ClassSyntax) -> bool:
        """Return whether the bases of a class form a circle."""
        *_, last = self.lineage(module, made)
        return self.base(last.module, last.declared) is not None
