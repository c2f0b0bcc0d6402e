"""The hosts of the conformance suites."""

from __future__ import annotations

from account_sites import AccountSite, BusyboxSite, ShadowSite
from pacman_site import PacmanSite
from pkg_sites import AptSite, PkgSite
from rpm_sites import DnfSite, ZypperSite

PACKAGE_MANAGERS: tuple[type[PkgSite], ...] = (AptSite, DnfSite, PacmanSite, ZypperSite)
"""Hosts with one package manager each."""
ACCOUNT_TOOLS: tuple[type[AccountSite], ...] = (ShadowSite, BusyboxSite)
"""Hosts with one set of tools for accounts each."""
