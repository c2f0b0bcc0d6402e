"""The hosts of the conformance suites."""

from __future__ import annotations

from pacman_site import PacmanSite
from pkg_sites import AptSite, PkgSite
from rpm_sites import DnfSite, ZypperSite

PACKAGE_MANAGERS: tuple[type[PkgSite], ...] = (AptSite, DnfSite, PacmanSite, ZypperSite)
"""Hosts with one package manager each."""
