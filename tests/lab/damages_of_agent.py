"""Damage to the environment of the agent, and to the agent itself during other damage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from damages import APP, APT, JOB, LARGE, LINK, NGINX, PROGRAM, SETTINGS, SMALL, damage, managed

if TYPE_CHECKING:
    from site_under_test import Site


@damage(managed(SMALL))
def disk_full_for_a_moment(site: Site) -> None:
    """The disk is full for a moment: the repair fails until there is room."""
    site.hurt(
        f"rm -f /srv/small/fill; dd if=/dev/zero of=/srv/small/fill bs=4k 2>/dev/null || true; echo x >{SMALL} || true"
    )
    site.failing(managed(SMALL))
    site.hurt("rm -f /srv/small/fill")


@damage(NGINX)
def bus_restarted_under_a_stop(site: Site) -> None:
    """D-Bus is restarted while a service stops, so its signals may be lost."""
    site.hurt("systemctl restart dbus; systemctl stop nginx")


@damage(NGINX)
def manager_replaced_under_a_stop(site: Site) -> None:
    """PID 1 re-executes itself while a service stops."""
    site.hurt("systemctl daemon-reexec; systemctl stop nginx")


@damage(APP)
def manager_reloaded_again_and_again(site: Site) -> None:
    """PID 1 is reloaded repeatedly while a service stops."""
    site.hurt("systemctl daemon-reload; systemctl stop guestbook; systemctl daemon-reload; systemctl daemon-reload")


@damage(managed(SETTINGS), managed(PROGRAM))
def clock_stepped(site: Site) -> None:
    """The clock goes forward by an hour and back, and a file is edited each time."""
    site.clock(3600)
    site.hurt(f"echo forward >{SETTINGS}")
    site.clock(-7200)
    site.hurt(f"echo back >{PROGRAM}")
    site.clock(0)


@damage(managed(LARGE))
def events_flooded(site: Site) -> None:
    """More events than the kernel queues for one reader; the last one matters."""
    flood = "import os\nfor n in range(30000): open('/srv/chaos/flood', 'w').close(); os.unlink('/srv/chaos/flood')"
    site.hurt(
        f'systemctl kill -s STOP holdfast || true; python3 -c "{flood}" || true; '
        f"systemctl kill -s CONT holdfast || true; echo x >>{LARGE}"
    )


@damage(managed(LARGE), managed(SETTINGS))
def states_reloaded_in_the_middle(site: Site) -> None:
    """States are reloaded during a repair."""
    site.hurt(f"echo x >{LARGE}; touch /etc/holdfast/states/extra.sls; echo x >{SETTINGS}; holdfast reload || true")


@damage(managed(SETTINGS))
def states_broken_for_a_while(site: Site) -> None:
    """States that do not compile: the running graph stays in force."""
    site.hurt(
        f"echo 'x: [' >/etc/holdfast/states/broken.sls; sleep 0.3; echo x >{SETTINGS}; sleep 0.3; "
        "rm -f /etc/holdfast/states/broken.sls"
    )


@damage()
def state_taken_away_and_put_back(site: Site) -> None:
    """A state is removed, its file is damaged, and the damage is found when the state is back."""
    site.hurt(
        f"mv /etc/holdfast/states/extra.sls /root/; sleep 0.4; echo x >{LARGE}; rm -f {LINK}; "
        "mv /root/extra.sls /etc/holdfast/states/ || true"
    )


@damage(managed(SETTINGS))
def damaged_while_paused(site: Site) -> None:
    """Damage during a pause is noticed at once, and repaired after the pause."""
    # a pause survives the agent, which may be dead at this moment
    resume = "for _ in $(seq 100); do holdfast resume && break; sleep 0.1; done"
    site.hurt(f"holdfast pause || true; echo x >{SETTINGS}; sleep 0.2; {resume}")


@damage(managed(LARGE))
def damaged_while_the_agent_is_frozen(site: Site) -> None:
    """Damage while the agent is stopped by SIGSTOP: events are queued."""
    site.hurt(
        f"systemctl kill -s STOP holdfast || true; rm -f {LARGE}; sleep 0.5; systemctl kill -s CONT holdfast || true"
    )


@damage(restarts=True)
def damaged_while_there_is_no_agent(site: Site) -> None:
    """Damage while no agent runs: no event reports it."""
    site.hurt(
        f"systemctl stop holdfast; echo x >{SETTINGS}; systemctl stop sleeper; rm -f {LINK}; systemctl start holdfast"
    )


@damage(restarts=True)
def agent_restarted_while_it_repairs(site: Site) -> None:
    """An orderly restart during a repair, as in an upgrade."""
    site.hurt(f"echo x >{LARGE}; {APT} remove tiny; systemctl restart holdfast")


@damage(managed(SETTINGS), managed(LARGE), NGINX, JOB)
def many_at_once(site: Site) -> None:
    """Damage to files, a service and a job together."""
    site.hurt(f"rm -f {SETTINGS}; echo x >{LARGE}; systemctl stop nginx; crontab -u guestbook -r || true")


@damage(managed(LARGE))
def damaged_at_the_moment_of_the_repair(site: Site) -> None:
    """Damage again as soon as it is repaired."""
    for _ in range(3):
        site.hurt(f"echo again >{LARGE}")
        end = time.monotonic() + 3
        while time.monotonic() < end and site.host.run("grep", "-q", "again", LARGE, check=False).returncode == 0:
            pass


@damage(managed(SETTINGS))
def pillar_changed_and_back(site: Site) -> None:
    """The pillar is changed and changed back; the values in between are changed back, too."""
    pillar = "/etc/holdfast/pillar/guestbook.sls"
    site.hurt(
        f"cp -n {pillar} /root/pillar; sed -i 's/greeting: .*/greeting: Another/' {pillar};"
        f"for n in $(seq 50); do grep -q Another {SETTINGS} && break; sleep 0.1; done; cp /root/pillar {pillar}"
    )


@damage(managed(SETTINGS))
def damaged_while_it_only_looks(site: Site) -> None:
    """Damage during noop is repaired when noop ends."""
    settings = "/etc/holdfast/agent.yaml"
    site.hurt(
        f"sed -i 's/recheck: 0.*}}/recheck: 0, noop: true}}/' {settings}; sleep 0.3; echo x >{SETTINGS}; sleep 0.5; "
        f"sed -i 's/, noop: true//' {settings}"
    )


@damage(managed(LARGE), managed(SETTINGS))
def reloaded_again_and_again(site: Site) -> None:
    """A script reloads the agent repeatedly."""
    site.hurt(
        f"echo x >{LARGE}; for n in $(seq 20); do systemctl kill -s HUP --kill-whom=main holdfast || true; done; "
        f"echo x >{SETTINGS}"
    )


@damage(managed(LARGE))
def no_room_for_its_memory(site: Site) -> None:
    """The agent's own disk is full: the agent must not make changes that it could not record in the journal."""
    site.hurt(
        f"dd if=/dev/zero of=/var/lib/holdfast/fill bs=4k 2>/dev/null || true; echo x >{LARGE}; sleep 1; "
        "rm -f /var/lib/holdfast/fill"
    )


@damage(managed(LARGE))
def no_descriptors_for_a_moment(site: Site) -> None:
    """The agent has no descriptors left for a moment."""
    limit = "prlimit --pid $(systemctl show -P MainPID holdfast) --nofile"
    site.hurt(f"{limit}=16: || true; echo x >{LARGE}; systemctl stop sleeper; sleep 1; {limit}=1024: || true")


@damage(restarts=True)
def memory_damaged(site: Site) -> None:
    """The journal is damaged. The agent moves it aside and starts, because otherwise it would repair nothing."""
    site.hurt(
        "systemctl stop holdfast; for file in /var/lib/holdfast/*.db*; do echo nonsense >$file; done; "
        f"echo x >{LARGE}; systemctl start holdfast"
    )


@damage(restarts=True)
def killed_again_and_again(site: Site) -> None:
    """The agent is killed repeatedly during its start."""
    site.hurt(
        f"echo x >{SETTINGS}; for n in 1 2 3 4 5 6 7; do systemctl kill -s KILL holdfast || true; sleep 0.$n; done; "
        f"echo x >{LARGE}"
    )
