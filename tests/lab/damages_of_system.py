"""Damage to services, packages, accounts, jobs and parameters of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damages import ACCOUNT, APP, APT, JOB, NGINX, SETTINGS, SLEEPER, UNIT, damage, managed

if TYPE_CHECKING:
    from site_under_test import Site


# -- services ----------------------------------------------------------------------------------------------------------


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


@damage(NGINX)
def service_unlinked(site: Site) -> None:
    """Disabled behind systemd's back."""
    site.hurt("rm -f /etc/systemd/system/*.wants/nginx.service")


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


@damage(SLEEPER)
def service_masked_at_runtime(site: Site) -> None:
    """Until the next boot."""
    site.hurt("systemctl mask -q --runtime --now sleeper")


@damage()
def service_killed_too_often(site: Site) -> None:
    """The service manager gives up at some point, and would refuse to start it."""
    site.hurt("for n in $(seq 8); do systemctl kill -s KILL guestbook || true; sleep 0.15; done")


@damage(managed(SETTINGS))
def log_restarted(site: Site) -> None:
    """What the agent tells from then on has to arrive, too."""
    site.hurt(f"systemctl restart systemd-journald; echo x >{SETTINGS}")


# -- packages ----------------------------------------------------------------------------------------------------------


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
        "dpkg --unpack /srv/apt/tiny_2.0_all.deb >/dev/null; dpkg-query -s tiny >/var/lib/dpkg/updates/0000; "
        "echo >>/var/lib/dpkg/updates/0000"
    )


@damage("pkg.installed[tiny]")
def package_removed_while_apt_is_locked(site: Site) -> None:
    """Somebody else's apt holds the lock for a while."""
    lock = "import fcntl,time; f=open('/var/lib/dpkg/lock-frontend','w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(2)"
    site.hurt(f'{APT} remove tiny; python3 -c "{lock}"')


@damage("pkg.installed[tiny]")
def package_manager_killed(site: Site) -> None:
    """Whoever runs it, the agent as well."""
    site.hurt(f"{APT} remove tiny; for n in $(seq 25); do pkill -KILL -x dpkg || true; sleep 0.02; done")


@damage("pkg.installed[tiny]")
def package_removed_and_lists_lost(site: Site) -> None:
    """It has to be found again first."""
    site.hurt(f"{APT} remove tiny; rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin")


# -- accounts ----------------------------------------------------------------------------------------------------------


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


@damage("user.present[guestbook-account]")
def user_removed_at_work(site: Site) -> None:
    """With its group, while its service runs."""
    site.hurt("userdel -f guestbook 2>&1 || ! getent passwd guestbook")


@damage(ACCOUNT)
def user_removed_while_accounts_are_locked(site: Site) -> None:
    """Somebody edits them for a while, as vipw does."""
    site.hurt(
        "userdel visitor 2>&1 || ! getent passwd visitor; set -C; echo $$ >/etc/passwd.lock; sleep 2; "
        "rm /etc/passwd.lock"
    )


# -- cron and kernel ---------------------------------------------------------------------------------------------------


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
