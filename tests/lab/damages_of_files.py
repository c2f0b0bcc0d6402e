"""Damage to files, directories and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from damages import FRONT, LARGE, LEAF, LINK, PROGRAM, SETTINGS, damage, managed

if TYPE_CHECKING:
    from site_under_test import Site

EXCHANGE = (
    "python3 -c 'import ctypes, os, sys; a, b = map(os.fsencode, sys.argv[1:]); "
    "sys.exit(ctypes.CDLL(None).renameat2(-100, a, -100, b, 2) != 0)'"
)
"""A command that exchanges two paths at once: between a removal and a move the agent would repair what was removed."""


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
    """A directory with content in place of the link; the state sets `force`.

    One program must do both steps: with two, the link is repaired in between.
    """
    swap = f"import os; os.path.islink('{LINK}') and os.unlink('{LINK}'); os.rename('{LINK}.new', '{LINK}')"
    site.hurt(f'rm -rf {LINK}.new; mkdir {LINK}.new; echo x >{LINK}.new/x; python3 -c "{swap}"')


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


@damage(managed(LARGE))
def tree_moved_away_and_back(site: Site) -> None:
    """What was made in its place meanwhile is removed; the watches are those of the tree that is back."""
    site.hurt(
        "test -e /srv/moved || mv -T /srv/chaos /srv/moved; sleep 0.1;"
        f"{EXCHANGE} /srv/moved /srv/chaos || mv -T /srv/moved /srv/chaos; rm -rf /srv/moved; sleep 0.1; "
        f"echo x >{LARGE}"
    )


@damage(managed(PROGRAM))
def mounted_over(site: Site) -> None:
    """Another file system hides what was right; then it is gone again."""
    site.hurt(
        f"mount -t tmpfs tmpfs /opt/guestbook; for n in $(seq 100); do test -s {PROGRAM} && break; sleep 0.1; done; "
        "umount -l /opt/guestbook"
    )


@damage()
def mounted_over_read_only(site: Site) -> None:
    """Nothing can be repaired in there; when it is gone all is right again."""
    site.hurt("mount -t tmpfs -o ro tmpfs /opt/guestbook")
    site.failing(managed(PROGRAM))
    site.hurt("umount -l /opt/guestbook")
