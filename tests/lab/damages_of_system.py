"""Damage to services, packages, accounts, jobs and kernel parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damages import ACCOUNT, APP, APT, JOB, NGINX, SETTINGS, SLEEPER, UNIT, damage, managed

if TYPE_CHECKING:
    from site_under_test import Site


# -- services ----------------------------------------------------------------------------------------------------------


@damage(NGINX)
def service_stopped(site: Site) -> None:
    """An operator stops the service."""
    site.hurt("systemctl stop nginx")


@damage(NGINX)
def service_killed(site: Site) -> None:
    """All processes of the service are killed; only the agent starts it again."""
    site.hurt("systemctl kill -s KILL --kill-whom=all nginx")


@damage()
def service_killed_that_comes_back(site: Site) -> None:
    """The service is killed. Both systemd and the agent start it again; either may be first."""
    site.hurt("systemctl kill -s KILL guestbook")


@damage(NGINX)
def service_disabled(site: Site) -> None:
    """The service is disabled, so it would not start at the next boot."""
    site.hurt("systemctl disable -q nginx")


@damage(NGINX)
def service_unlinked(site: Site) -> None:
    """The link for the boot is removed; systemd is not notified."""
    site.hurt("rm -f /etc/systemd/system/*.wants/nginx.service")


@damage(SLEEPER)
def service_masked_and_stopped(site: Site) -> None:
    """The service is masked, so it could not be started."""
    site.hurt("systemctl mask -q --now sleeper")


@damage(SLEEPER)
def service_stopped_and_disabled(site: Site) -> None:
    """The service is stopped and disabled."""
    site.hurt("systemctl disable -q --now sleeper")


@damage(managed("guestbook/unit"))
def unit_edited(site: Site) -> None:
    """The unit is edited, and systemd is reloaded."""
    site.hurt(f"echo '[Unit]' >>{UNIT}; systemctl daemon-reload")


@damage(managed("guestbook/unit"))
def unit_removed(site: Site) -> None:
    """The unit is removed; the service keeps running."""
    site.hurt(f"rm -f {UNIT}; systemctl daemon-reload")


@damage(managed("guestbook/unit"), APP)
def unit_removed_and_stopped(site: Site) -> None:
    """The unit is removed and the service stopped, so it no longer exists."""
    site.hurt(f"systemctl stop guestbook; rm -f {UNIT}; systemctl daemon-reload")


@damage(SLEEPER)
def service_masked_at_runtime(site: Site) -> None:
    """The service is masked until the next boot."""
    site.hurt("systemctl mask -q --runtime --now sleeper")


@damage()
def service_killed_too_often(site: Site) -> None:
    """The service is killed until systemd refuses to start it."""
    site.hurt("for n in $(seq 8); do systemctl kill -s KILL guestbook || true; sleep 0.15; done")


@damage(managed(SETTINGS))
def log_restarted(site: Site) -> None:
    """The journal is restarted; later messages of the agent must arrive."""
    site.hurt(f"systemctl restart systemd-journald; echo x >{SETTINGS}")


# -- packages ----------------------------------------------------------------------------------------------------------


@damage("pkg.installed[tiny]")
def package_removed(site: Site) -> None:
    """The package is removed; its configuration stays."""
    site.hurt(f"{APT} remove tiny")


@damage("pkg.installed[tiny]")
def package_purged(site: Site) -> None:
    """The package is purged with its configuration."""
    site.hurt(f"{APT} purge tiny")


@damage("pkg.installed[nginx]", NGINX)
def server_purged(site: Site) -> None:
    """Package, configuration and service are removed."""
    site.hurt(f"{APT} purge nginx-light nginx-common")


@damage("pkg.installed[tiny]")
def package_half_configured(site: Site) -> None:
    """The package is unpacked but not configured."""
    site.hurt("dpkg --unpack /srv/apt/tiny_1.0_all.deb >/dev/null")


@damage("pkg.installed[tiny]")
def dpkg_interrupted(site: Site) -> None:
    """A dpkg is killed; its journal then requires `dpkg --configure -a` before any other action."""
    site.hurt(
        "dpkg --unpack /srv/apt/tiny_2.0_all.deb >/dev/null; dpkg-query -s tiny >/var/lib/dpkg/updates/0000; "
        "echo >>/var/lib/dpkg/updates/0000"
    )


@damage("pkg.installed[tiny]")
def package_removed_while_apt_is_locked(site: Site) -> None:
    """The package is removed, and then another apt holds the lock for a while."""
    lock = "import fcntl,time; f=open('/var/lib/dpkg/lock-frontend','w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(2)"
    site.hurt(f'{APT} remove tiny; python3 -c "{lock}"')


@damage("pkg.installed[tiny]")
def package_manager_killed(site: Site) -> None:
    """Every package manager is killed, also that of the agent."""
    site.hurt(f"{APT} remove tiny; for n in $(seq 25); do pkill -KILL -x dpkg || true; sleep 0.02; done")


@damage("pkg.installed[tiny]")
def package_removed_and_lists_lost(site: Site) -> None:
    """The package is removed, and the package lists with it."""
    site.hurt(f"{APT} remove tiny; rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin")


# -- accounts ----------------------------------------------------------------------------------------------------------


@damage(ACCOUNT)
def user_removed(site: Site) -> None:
    """The user is removed, and its membership in groups."""
    site.hurt("userdel visitor 2>&1 || ! getent passwd visitor")


@damage("user.present[guestbook-account]")
def shell_changed(site: Site) -> None:
    """The shell of a user whose service runs is changed."""
    site.hurt("usermod -s /bin/bash guestbook")


@damage("user.present[guestbook-account]")
def home_changed_of_a_user_at_work(site: Site) -> None:
    """An editor changes the home of a user; the tools refuse that while processes of the user run."""
    site.hurt("sed -i 's#:/var/lib/guestbook:#:/tmp:#' /etc/passwd")


@damage(ACCOUNT)
def home_and_name_changed(site: Site) -> None:
    """Home and comment are changed together."""
    site.hurt("usermod -d /tmp -c Nobody visitor")


@damage(ACCOUNT)
def user_locked(site: Site) -> None:
    """The password is no longer the declared one."""
    site.hurt("usermod -p '!x' visitor")


@damage("user.present[guestbook-account]")
def group_joined(site: Site) -> None:
    """The user is added to a privileged group."""
    site.hurt("gpasswd -a guestbook adm")


@damage("group.present[visitor]")
def group_left(site: Site) -> None:
    """The user is removed from a group."""
    site.hurt("gpasswd -d visitor crew || true")


@damage("group.present[visitor]")
def group_removed(site: Site) -> None:
    """The group is removed."""
    site.hurt("groupdel crew")


@damage("user.present[guestbook-account]")
def user_removed_at_work(site: Site) -> None:
    """The user and its group are removed while its service runs."""
    site.hurt("userdel -f guestbook 2>&1 || ! getent passwd guestbook")


@damage(ACCOUNT)
def user_removed_while_accounts_are_locked(site: Site) -> None:
    """The user is removed while another process locks the account files, as vipw does."""
    site.hurt(
        "userdel visitor 2>&1 || ! getent passwd visitor; set -C; echo $$ >/etc/passwd.lock; sleep 2; "
        "rm /etc/passwd.lock"
    )


# -- cron and kernel ---------------------------------------------------------------------------------------------------


@damage(JOB)
def crontab_removed(site: Site) -> None:
    """All jobs of the user are removed."""
    site.hurt("crontab -u guestbook -r || true")


@damage(JOB)
def job_moved_to_another_hour(site: Site) -> None:
    """The time of a job is edited."""
    site.hurt("crontab -u guestbook -l | sed 's/^\\([0-9]*\\) 3 /\\1 4 /' | crontab -u guestbook -")


@damage(JOB)
def job_disabled(site: Site) -> None:
    """A job is commented out, as Salt does."""
    site.hurt("crontab -u guestbook -l | sed 's/^[0-9]/#DISABLED#&/' | crontab -u guestbook -")


@damage(JOB)
def job_doubled(site: Site) -> None:
    """A job is duplicated."""
    site.hurt("(crontab -u guestbook -l; crontab -u guestbook -l | tail -n 2) | crontab -u guestbook -")


@damage(JOB)
def spool_removed(site: Site) -> None:
    """The crontab file is removed."""
    site.hurt("rm -f /var/spool/cron/crontabs/guestbook")


@damage("sysctl.present[net.core.somaxconn]")
def parameter_set(site: Site) -> None:
    """The parameter is set until the next boot."""
    site.hurt("sysctl -q -w net.core.somaxconn=128")


@damage("sysctl.present[net.ipv4.ip_default_ttl]")
def parameter_forgotten(site: Site) -> None:
    """The file of the parameter changes, with effect at the next boot."""
    site.hurt("rm -f /etc/sysctl.d/50-chaos.conf")


@damage("sysctl.present[net.ipv4.ip_default_ttl]")
def parameter_set_and_edited(site: Site) -> None:
    """The parameter is changed now and for the next boot."""
    site.hurt("echo net.ipv4.ip_default_ttl=99 >/etc/sysctl.d/50-chaos.conf; sysctl -q -p /etc/sysctl.d/50-chaos.conf")
