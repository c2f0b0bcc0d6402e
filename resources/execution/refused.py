"""Execution functions of Salt that Holdfast does not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

COMPOSE = "run `docker compose` by cmd.run"
SWARM = "run `docker swarm`, `docker node` or `docker service` by cmd.run"

REFUSED: Mapping[str, str] = {
    "archive": "use the state archive.extracted",
    "cloud": "there is no master that creates hosts",
    "cp": "use file.managed or file.recurse; there is no master to send files to",
    "docker": "run docker by cmd.run",
    "dockercompose": COMPOSE,
    "event": "there is no event bus",
    "file.append": "use the state file.append",
    "file.chown": "use the state file.managed or file.directory with user and group",
    "file.copy": "use the state file.copy",
    "file.mkdir": "use the state file.directory",
    "file.remove": "use the state file.absent",
    "file.replace": "use the state file.replace",
    "file.set_mode": "use the state file.managed or file.directory with mode",
    "file.symlink": "use the state file.symlink",
    "file.touch": "use the state file.touch",
    "git": "run git by cmd.run with creates or unless",
    "http": "run curl by cmd.run",
    "kmod": "run modprobe by cmd.run with unless",
    "mine": "there is no master with the data of other hosts: put them into the pillar",
    "pkg.mod_repo": "use file.managed for the file of the repository, or `holdfast call pkg.repo_set`",
    "saltutil": "there is nothing to synchronise or to refresh: grains, pillar and kinds are read at each change",
    "sdb": "there is no sdb: put the value into the pillar",
    "state": "states are applied from state files alone: use include",
    "swarm": SWARM,
    "system": "run shutdown or systemctl by cmd.run",
    "vault": "there is no vault: put the value into the pillar",
    "virt": "run virsh by cmd.run",
}
"""Execution function, or Salt module without any function here -> what to use instead."""
