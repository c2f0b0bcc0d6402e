"""The target `docs`: a page in Markdown for each source."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agent.generators.package_pages import module_page
from holdfast.agent.model.package import Package


class DocsTarget:
    """Generates pages for users of a package."""

    name = "docs"

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return the pages."""
        return {f"{module.name}.md": module_page(package, module) for module in package.modules}

    def provider(self, package: Package) -> Mapping[str, str]:  # noqa: ARG002 - it is for users of packages
        """Return no files."""
        return {}


TARGET = DocsTarget()
