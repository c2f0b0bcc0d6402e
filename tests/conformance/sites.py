"""The hosts of the conformance suites."""

from __future__ import annotations

from pacman_site import PacmanSite
from pkg_sites import AptSite, PkgSite

PACKAGE_MANAGERS: tuple[type[PkgSite], ...] = (AptSite, PacmanSite)
"""Hosts with one package manager each."""
