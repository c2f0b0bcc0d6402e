"""Kinds of damage that a host can take, and which resource has to repair each.

A damage is a function that does it, given the `Site`; its docstring says what a person might have done. The identities name the
resources whose repair must be in the journal: none where the machine helps itself, or where a repair may not be needed any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from site_under_test import Site

SETTINGS, PROGRAM, UNIT = "/etc/guestbook.json", "/opt/guestbook/serve.py", "/etc/systemd/system/guestbook.service"
LARGE, LEAF, SMALL, LINK = "/srv/chaos/large", "/srv/chaos/deep/er/leaf", "/srv/small/file", "/srv/chaos/link"
FRONT = "/etc/nginx/sites-available/guestbook"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=60"
ACCOUNT, JOB = "user.present[visitor]", "cron.present[guestbook-backup]"
APP, NGINX, SLEEPER = "service.running[guestbook/service]", "service.running[nginx]", "service.running[sleeper]"


class Damage(NamedTuple):
    """One kind of damage."""

    do: Callable[[Site], object]
    repairs: tuple[str, ...]
    """Identities of the resources that must tell of a repair."""
    restarts: bool = False
    """It ends the agent."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.do.__name__


DAMAGES: list[Damage] = []


def damage(*repairs: str, restarts: bool = False) -> Callable[[Callable[[Site], object]], Callable[[Site], object]]:
    """Add a function to the damages."""

    def add(do: Callable[[Site], object]) -> Callable[[Site], object]:
        DAMAGES.append(Damage(do, repairs, restarts))
        return do

    return add


def managed(path: str) -> str:
    """The resource that keeps a file."""
    return f"file.managed[{path}]"


# -- files -----------------------------------------------------------------------------------------------------------


@damage(managed(SETTINGS))
def settings_edited(site: Site) -> None:
    """In place, with an editor that truncates."""
    site.hurt(f"""echo '{{"greeting": "defaced", "port": 8080}}' >{SETTINGS}""")


@damage(managed(SETTINGS))
def settings_edited_and_taken_over(site: Site) -> None:
    """The service runs with them before they are repaired: only a restart afterwards is a cure."""
    site.hurt(f"""echo '{{"greeting": "defaced", "port": 8080}}' >{SETTINGS}; systemctl restart guestbook""")


@damage(managed(PROGRAM))
def program_appended_to(site: Site) -> None:
    """A line more at its end."""
    site.hurt(f"echo '# more' >>{PROGRAM}")


@damage(managed(LARGE))
def file_truncated(site: Site) -> None:
    """To nothing."""
    site.hurt(f": >{LARGE}")


@damage(managed(SETTINGS))
def file_deleted(site: Site) -> None:
    """The settings are gone."""
    site.hurt(f"rm {SETTINGS}")


@damage(managed(PROGRAM))
def file_replaced_by_rename(site: Site) -> None:
    """As an editor saves."""
    site.hurt(f"echo 'import this' >{PROGRAM}.new; mv {PROGRAM}.new {PROGRAM}")


@damage(managed(LARGE))
def file_written_slowly(site: Site) -> None:
    """By somebody who keeps it open."""
    site.hurt(f"exec 3>{LARGE}; for n in 1 2 3 4 5 6; do echo slow $n >&3; sleep 0.05; done")


@damage(managed(LARGE))
def file_written_all_the_time(site: Site) -> None:
    """Again while it is being repaired."""
    site.hurt(f"for n in $(seq 30); do echo $n >>{LARGE}; sleep 0.01; done")


@damage(managed(LARGE))
def file_replaced_by_directory(site: Site) -> None:
    """What is in it is not the agent's to remove: it says so until somebody has done it."""
    site.hurt(f"rm -rf {LARGE}; mkdir {LARGE}")
    site.failing(managed(LARGE))
    site.hurt(f"rm -rf {LARGE}")


@damage(managed(LEAF))
def file_replaced_by_fifo(site: Site) -> None:
    """Whoever opened it would wait for ever."""
    site.hurt(f"rm -rf {LEAF}; mkfifo {LEAF}")
    site.failing(managed(LEAF))
    site.hurt(f"rm -rf {LEAF}")


@damage(managed(LARGE))
def file_replaced_by_dangling_link(site: Site) -> None:
    """Nothing is made where it leads."""
    site.hurt(f"ln -sfn /srv/nowhere {LARGE}")
    site.failing(managed(LARGE))
    site.hurt(f"rm -f {LARGE}; test ! -e /srv/nowhere")


@damage(managed(SETTINGS))
def mode_opened(site: Site) -> None:
    """Everybody may write it."""
    site.hurt(f"chmod 666 {SETTINGS}")


@damage(managed("/usr/local/bin/guestbook-backup"))
def set_user_id(site: Site) -> None:
    """A script that would run as somebody else."""
    site.hurt("chmod 6755 /usr/local/bin/guestbook-backup")


@damage(managed(FRONT))
def owner_changed(site: Site) -> None:
    """To somebody."""
    site.hurt(f"chown daemon {FRONT}")


@damage(managed(SETTINGS))
def group_changed(site: Site) -> None:
    """The service could not read its settings at its next start."""
    site.hurt(f"chgrp root {SETTINGS}")


@damage(managed(PROGRAM))
def parent_moved(site: Site) -> None:
    """The file is still there, elsewhere."""
    site.hurt("rm -rf /opt/away; mv /opt/guestbook /opt/away")


@damage(managed(PROGRAM), "file.directory[/opt/guestbook]")
def parent_removed(site: Site) -> None:
    """With all that is in it."""
    site.hurt("rm -rf /opt/guestbook")


@damage(managed(LEAF))
def deep_tree_removed(site: Site) -> None:
    """Several levels at once, one of them managed by nobody."""
    site.hurt("rm -rf /srv/chaos/deep")


@damage("file.directory[/var/lib/guestbook]")
def directory_opened(site: Site) -> None:
    """Everybody may look into it."""
    site.hurt("chmod 777 /var/lib/guestbook")


@damage("file.directory[/var/backups/guestbook]")
def directory_given_away(site: Site) -> None:
    """To root."""
    site.hurt("chown root:root /var/backups/guestbook")


@damage("file.symlink[/srv/chaos/link]")
def link_led_elsewhere(site: Site) -> None:
    """By another link in its place."""
    site.hurt(f"ln -sfn /etc/passwd {LINK}")


@damage("file.symlink[/srv/chaos/link]")
def link_removed(site: Site) -> None:
    """It is gone."""
    site.hurt(f"rm -f {LINK}")


@damage("file.symlink[/srv/chaos/link]")
def link_replaced_by_directory(site: Site) -> None:
    """With something in it; the state says `force`."""
    site.hurt(f"rm -rf {LINK}; mkdir {LINK}; echo x >{LINK}/x")


@damage("file.append[/srv/chaos/lines]")
def line_removed(site: Site) -> None:
    """One of those that must be in a file which is not managed as a whole."""
    site.hurt("sed -i /two/d /srv/chaos/lines")


@damage(managed(FRONT))
def site_broken_and_reloaded(site: Site) -> None:
    """The front has read nonsense, or refused to."""
    site.hurt(f"echo 'nonsense;' >{FRONT}; systemctl reload nginx || true")


@damage("file.symlink[/etc/nginx/sites-enabled/default]")
def site_disabled_and_reloaded(site: Site) -> None:
    """The front serves nothing until it is told again."""
    site.hurt("rm -f /etc/nginx/sites-enabled/default; systemctl reload nginx || true")


# -- services --------------------------------------------------------------------------------------------------------


@damage(NGINX)
def service_stopped(site: Site) -> None:
    """As an operator would."""
    site.hurt("systemctl stop nginx")


@damage(NGINX)
def service_killed(site: Site) -> None:
    """All its processes; nobody but the agent starts it again."""
    site.hurt("systemctl kill -s KILL --kill-whom=all nginx")


@damage()
def service_killed_that_comes_back(site: Site) -> None:
    """The service manager starts it again itself; whoever is first."""
    site.hurt("systemctl kill -s KILL guestbook")


@damage(NGINX)
def service_disabled(site: Site) -> None:
    """It would not come up at the next boot."""
    site.hurt("systemctl disable -q nginx")


@damage(SLEEPER)
def service_masked_and_stopped(site: Site) -> None:
    """It could not even be started."""
    site.hurt("systemctl mask -q --now sleeper")


@damage(SLEEPER)
def service_stopped_and_disabled(site: Site) -> None:
    """Both at once."""
    site.hurt("systemctl disable -q --now sleeper")


@damage(managed("guestbook/unit"))
def unit_edited(site: Site) -> None:
    """And the service manager told."""
    site.hurt(f"echo '[Unit]' >>{UNIT}; systemctl daemon-reload")


@damage(managed("guestbook/unit"))
def unit_removed(site: Site) -> None:
    """The service runs on without it."""
    site.hurt(f"rm -f {UNIT}; systemctl daemon-reload")


@damage(managed("guestbook/unit"), APP)
def unit_removed_and_stopped(site: Site) -> None:
    """The service does not exist any more."""
    site.hurt(f"systemctl stop guestbook; rm -f {UNIT}; systemctl daemon-reload")


# -- packages --------------------------------------------------------------------------------------------------------


@damage("pkg.installed[tiny]")
def package_removed(site: Site) -> None:
    """Its configuration stays."""
    site.hurt(f"{APT} remove tiny")


@damage("pkg.installed[tiny]")
def package_purged(site: Site) -> None:
    """With its configuration."""
    site.hurt(f"{APT} purge tiny")


@damage("pkg.installed[nginx]", NGINX)
def server_purged(site: Site) -> None:
    """Package, configuration and service."""
    site.hurt(f"{APT} purge nginx-light nginx-common")


@damage("pkg.installed[tiny]")
def package_half_configured(site: Site) -> None:
    """Unpacked, but never configured."""
    site.hurt("dpkg --unpack /srv/apt/tiny_1.0_all.deb >/dev/null")


@damage("pkg.installed[tiny]")
def dpkg_interrupted(site: Site) -> None:
    """Killed in the middle: it left a journal, and wants `dpkg --configure -a` before anything else."""
    site.hurt(
        "dpkg --unpack /srv/apt/tiny_2.0_all.deb >/dev/null; dpkg-query -s tiny >/var/lib/dpkg/updates/0000; echo >>/var/lib/dpkg/updates/0000"
    )


@damage("pkg.installed[tiny]")
def package_removed_while_apt_is_locked(site: Site) -> None:
    """Somebody else's apt holds the lock for a while."""
    lock = "import fcntl,time; f=open('/var/lib/dpkg/lock-frontend','w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(2)"
    site.hurt(f'{APT} remove tiny; python3 -c "{lock}"')


# -- accounts --------------------------------------------------------------------------------------------------------


@damage(ACCOUNT)
def user_removed(site: Site) -> None:
    """With the group membership."""
    site.hurt("userdel visitor 2>&1 || ! getent passwd visitor")


@damage("user.present[guestbook-account]")
def shell_changed(site: Site) -> None:
    """Of a user whose service runs."""
    site.hurt("usermod -s /bin/bash guestbook")


@damage("user.present[guestbook-account]")
def home_changed_of_a_user_at_work(site: Site) -> None:
    """By an editor: tools refuse that while its processes run."""
    site.hurt("sed -i 's#:/var/lib/guestbook:#:/tmp:#' /etc/passwd")


@damage(ACCOUNT)
def home_and_name_changed(site: Site) -> None:
    """Two fields at once."""
    site.hurt("usermod -d /tmp -c Nobody visitor")


@damage(ACCOUNT)
def user_locked(site: Site) -> None:
    """The password is no longer the declared one."""
    site.hurt("usermod -p '!x' visitor")


@damage("user.present[guestbook-account]")
def group_joined(site: Site) -> None:
    """A group with power."""
    site.hurt("gpasswd -a guestbook adm")


@damage("group.present[visitor]")
def group_left(site: Site) -> None:
    """A member less."""
    site.hurt("gpasswd -d visitor crew || true")


@damage("group.present[visitor]")
def group_removed(site: Site) -> None:
    """The whole group."""
    site.hurt("groupdel crew")


# -- cron and kernel -------------------------------------------------------------------------------------------------


@damage(JOB)
def crontab_removed(site: Site) -> None:
    """All jobs of the user."""
    site.hurt("crontab -u guestbook -r || true")


@damage(JOB)
def job_moved_to_another_hour(site: Site) -> None:
    """By hand."""
    site.hurt("crontab -u guestbook -l | sed 's/^\\([0-9]*\\) 3 /\\1 4 /' | crontab -u guestbook -")


@damage(JOB)
def job_disabled(site: Site) -> None:
    """By a comment before it, as Salt does."""
    site.hurt("crontab -u guestbook -l | sed 's/^[0-9]/#DISABLED#&/' | crontab -u guestbook -")


@damage(JOB)
def job_doubled(site: Site) -> None:
    """It would run twice."""
    site.hurt("(crontab -u guestbook -l; crontab -u guestbook -l | tail -n 2) | crontab -u guestbook -")


@damage(JOB)
def spool_removed(site: Site) -> None:
    """The file itself."""
    site.hurt("rm -f /var/spool/cron/crontabs/guestbook")


@damage("sysctl.present[net.core.somaxconn]")
def parameter_set(site: Site) -> None:
    """Until the next boot."""
    site.hurt("sysctl -q -w net.core.somaxconn=128")


@damage("sysctl.present[net.ipv4.ip_default_ttl]")
def parameter_forgotten(site: Site) -> None:
    """It would be another after the next boot."""
    site.hurt("rm -f /etc/sysctl.d/50-chaos.conf")


@damage("sysctl.present[net.ipv4.ip_default_ttl]")
def parameter_set_and_edited(site: Site) -> None:
    """Now and for the next boot."""
    site.hurt("echo net.ipv4.ip_default_ttl=99 >/etc/sysctl.d/50-chaos.conf; sysctl -q -p /etc/sysctl.d/50-chaos.conf")


# -- the machine and the agent ---------------------------------------------------------------------------------------


@damage(managed(SMALL))
def disk_full_for_a_moment(site: Site) -> None:
    """The repair fails until there is room again."""
    site.hurt(f"rm -f /srv/small/fill; dd if=/dev/zero of=/srv/small/fill bs=4k 2>/dev/null || true; echo x >{SMALL} || true")
    site.failing(managed(SMALL))
    site.hurt("rm -f /srv/small/fill")


@damage(NGINX)
def bus_restarted_under_a_stop(site: Site) -> None:
    """The signals of the stop may not arrive."""
    site.hurt("systemctl restart dbus; systemctl stop nginx")


@damage(NGINX)
def manager_replaced_under_a_stop(site: Site) -> None:
    """PID 1 executes itself anew."""
    site.hurt("systemctl daemon-reexec; systemctl stop nginx")


@damage(APP)
def manager_reloaded_again_and_again(site: Site) -> None:
    """While a service is stopped."""
    site.hurt("systemctl daemon-reload; systemctl stop guestbook; systemctl daemon-reload; systemctl daemon-reload")


@damage(managed(SETTINGS), managed(PROGRAM))
def clock_stepped(site: Site) -> None:
    """An hour on, and back, a file edited each time."""
    site.clock(3600)
    site.hurt(f"echo forward >{SETTINGS}")
    site.clock(-7200)
    site.hurt(f"echo back >{PROGRAM}")
    site.clock(0)


@damage(managed(LARGE))
def events_flooded(site: Site) -> None:
    """More than the kernel keeps for one reader; the last one matters."""
    flood = "import os\nfor n in range(30000): open('/srv/chaos/flood', 'w').close(); os.unlink('/srv/chaos/flood')"
    site.hurt(
        f'systemctl kill -s STOP holdfast || true; python3 -c "{flood}" || true; systemctl kill -s CONT holdfast || true; echo x >>{LARGE}'
    )


@damage(managed(LARGE), managed(SETTINGS))
def states_reloaded_in_the_middle(site: Site) -> None:
    """While it repairs."""
    site.hurt(f"echo x >{LARGE}; touch /etc/holdfast/states/extra.sls; echo x >{SETTINGS}; holdfast reload || true")


@damage(managed(SETTINGS))
def states_broken_for_a_while(site: Site) -> None:
    """The running graph goes on."""
    site.hurt(
        f"echo 'x: [' >/etc/holdfast/states/broken.sls; sleep 0.3; echo x >{SETTINGS}; sleep 0.3; rm -f /etc/holdfast/states/broken.sls"
    )


@damage()
def state_taken_away_and_put_back(site: Site) -> None:
    """What it managed is damaged meanwhile, and found when it is back."""
    site.hurt(
        f"mv /etc/holdfast/states/extra.sls /root/; sleep 0.4; echo x >{LARGE}; rm -f {LINK}; mv /root/extra.sls /etc/holdfast/states/ || true"
    )


@damage(managed(SETTINGS))
def damaged_while_paused(site: Site) -> None:
    """Noticed at once, repaired when it goes on."""
    site.hurt(f"holdfast pause || true; echo x >{SETTINGS}; sleep 0.2; holdfast resume || true")


@damage(managed(LARGE))
def damaged_while_the_agent_is_frozen(site: Site) -> None:
    """Events wait for it."""
    site.hurt(f"systemctl kill -s STOP holdfast || true; rm -f {LARGE}; sleep 0.5; systemctl kill -s CONT holdfast || true")


@damage(restarts=True)
def damaged_while_there_is_no_agent(site: Site) -> None:
    """No event tells of that."""
    site.hurt(f"systemctl stop holdfast; echo x >{SETTINGS}; systemctl stop sleeper; rm -f {LINK}; systemctl start holdfast")


@damage(restarts=True)
def agent_restarted_while_it_repairs(site: Site) -> None:
    """In order, as an upgrade would."""
    site.hurt(f"echo x >{LARGE}; {APT} remove tiny; systemctl restart holdfast")


@damage(managed(SETTINGS), managed(LARGE), NGINX, JOB)
def many_at_once(site: Site) -> None:
    """Files, a service and a job."""
    site.hurt(f"rm -f {SETTINGS}; echo x >{LARGE}; systemctl stop nginx; crontab -u guestbook -r || true")


@damage(managed(LARGE))
def damaged_at_the_moment_of_the_repair(site: Site) -> None:
    """Again as soon as it is right."""
    for _ in range(3):
        site.hurt(f"echo again >{LARGE}")
        end = time.monotonic() + 3
        while time.monotonic() < end and site.host.run("grep", "-q", "again", LARGE, check=False).returncode == 0:
            pass
