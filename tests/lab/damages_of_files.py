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
"""A command that exchanges two paths in one step; between two renames, the agent would repair the missing path."""


@damage(managed(SETTINGS))
def settings_edited(site: Site) -> None:
    """An editor that truncates the file changes the settings in place."""
    site.hurt(f"""echo '{{"greeting": "defaced", "port": 8080}}' >{SETTINGS}""")


@damage(managed(SETTINGS))
def settings_edited_and_taken_over(site: Site) -> None:
    """The service is restarted with edited settings before they are repaired, so only another restart helps."""
    site.hurt(f"""echo '{{"greeting": "defaced", "port": 8080}}' >{SETTINGS}; systemctl restart guestbook""")


@damage(managed(PROGRAM))
def program_appended_to(site: Site) -> None:
    """A line is appended to a program."""
    site.hurt(f"echo '# more' >>{PROGRAM}")


@damage(managed(LARGE))
def file_truncated(site: Site) -> None:
    """A file is truncated to no content."""
    site.hurt(f": >{LARGE}")


@damage(managed(SETTINGS))
def file_deleted(site: Site) -> None:
    """The settings are deleted."""
    site.hurt(f"rm {SETTINGS}")


@damage(managed(PROGRAM))
def file_replaced_by_rename(site: Site) -> None:
    """A file is replaced by a rename, as editors do."""
    site.hurt(f"echo 'import this' >{PROGRAM}.new; mv {PROGRAM}.new {PROGRAM}")


@damage(managed(LARGE))
def file_written_slowly(site: Site) -> None:
    """A program writes slowly and keeps the file open."""
    site.hurt(f"exec 3>{LARGE}; for n in 1 2 3 4 5 6; do echo slow $n >&3; sleep 0.05; done")


@damage(managed(LARGE))
def file_written_all_the_time(site: Site) -> None:
    """A program writes repeatedly, also during the repair."""
    site.hurt(f"for n in $(seq 30); do echo $n >>{LARGE}; sleep 0.01; done")


@damage(managed(LARGE))
def file_replaced_by_directory(site: Site) -> None:
    """A directory with content replaces the file.

    The agent must not remove it, and reports that until someone does.
    """
    site.hurt(f"rm -rf {LARGE}; mkdir {LARGE}")
    site.failing(managed(LARGE))
    site.hurt(f"rm -rf {LARGE}")


@damage(managed(LEAF))
def file_replaced_by_fifo(site: Site) -> None:
    """A fifo replaces the file; a process that opens it would wait for ever."""
    site.hurt(f"rm -rf {LEAF}; mkfifo {LEAF}")
    site.failing(managed(LEAF))
    site.hurt(f"rm -rf {LEAF}")


@damage(managed(LARGE))
def file_replaced_by_dangling_link(site: Site) -> None:
    """A dangling link replaces the file; nothing is created at its target."""
    site.hurt(f"ln -sfn /srv/nowhere {LARGE}")
    site.failing(managed(LARGE))
    site.hurt(f"rm -f {LARGE}; test ! -e /srv/nowhere")


@damage(managed(SETTINGS))
def mode_opened(site: Site) -> None:
    """The mode of the file lets everybody write it."""
    site.hurt(f"chmod 666 {SETTINGS}")


@damage(managed("/usr/local/bin/guestbook-backup"))
def set_user_id(site: Site) -> None:
    """A script gets the set-uid bit."""
    site.hurt("chmod 6755 /usr/local/bin/guestbook-backup")


@damage(managed(FRONT))
def owner_changed(site: Site) -> None:
    """The file gets another owner."""
    site.hurt(f"chown daemon {FRONT}")


@damage(managed(SETTINGS))
def group_changed(site: Site) -> None:
    """The file gets another group; the service could not read its settings at its next start."""
    site.hurt(f"chgrp root {SETTINGS}")


@damage(managed(PROGRAM))
def parent_moved(site: Site) -> None:
    """The parent directory is moved away with the file."""
    site.hurt("rm -rf /opt/away; mv /opt/guestbook /opt/away")


@damage(managed(PROGRAM), "file.directory[/opt/guestbook]")
def parent_removed(site: Site) -> None:
    """The parent directory is removed with everything in it."""
    site.hurt("rm -rf /opt/guestbook")


@damage(managed(LEAF))
def deep_tree_removed(site: Site) -> None:
    """Several levels are removed at once, one of which is not managed."""
    site.hurt("rm -rf /srv/chaos/deep")


@damage("file.directory[/var/lib/guestbook]")
def directory_opened(site: Site) -> None:
    """The mode of the directory lets everybody list it."""
    site.hurt("chmod 777 /var/lib/guestbook")


@damage("file.directory[/var/backups/guestbook]")
def directory_given_away(site: Site) -> None:
    """The directory is given to root."""
    site.hurt("chown root:root /var/backups/guestbook")


@damage("file.symlink[/srv/chaos/link]")
def link_led_elsewhere(site: Site) -> None:
    """The link is replaced by another one."""
    site.hurt(f"ln -sfn /etc/passwd {LINK}")


@damage("file.symlink[/srv/chaos/link]")
def link_removed(site: Site) -> None:
    """The link is removed."""
    site.hurt(f"rm -f {LINK}")


@damage("file.symlink[/srv/chaos/link]")
def link_replaced_by_directory(site: Site) -> None:
    """A directory with content replaces the link; the state sets `force`.

    One program must do both steps: with two, the link is repaired in between.
    """
    swap = f"import os; os.path.islink('{LINK}') and os.unlink('{LINK}'); os.rename('{LINK}.new', '{LINK}')"
    site.hurt(f'rm -rf {LINK}.new; mkdir {LINK}.new; echo x >{LINK}.new/x; python3 -c "{swap}"')


@damage("file.append[/srv/chaos/lines]")
def line_removed(site: Site) -> None:
    """A required line is removed from a file that is not managed as a whole."""
    site.hurt("sed -i /two/d /srv/chaos/lines")


@damage(managed(FRONT))
def site_broken_and_reloaded(site: Site) -> None:
    """The front server is reloaded with an invalid configuration, which it may refuse."""
    site.hurt(f"echo 'nonsense;' >{FRONT}; systemctl reload nginx || true")


@damage("file.symlink[/etc/nginx/sites-enabled/default]")
def site_disabled_and_reloaded(site: Site) -> None:
    """The front server serves nothing until it is reloaded."""
    site.hurt("rm -f /etc/nginx/sites-enabled/default; systemctl reload nginx || true")


@damage(managed(LARGE))
def tree_moved_away_and_back(site: Site) -> None:
    """A tree is moved away and back; the one that was created meanwhile is removed.

    The watches follow the moved tree.
    """
    site.hurt(
        "test -e /srv/moved || mv -T /srv/chaos /srv/moved; sleep 0.1;"
        f"{EXCHANGE} /srv/moved /srv/chaos || mv -T /srv/moved /srv/chaos; rm -rf /srv/moved; sleep 0.1; "
        f"echo x >{LARGE}"
    )


@damage(managed(PROGRAM))
def mounted_over(site: Site) -> None:
    """A file system is mounted over the file, and unmounted again."""
    site.hurt(
        f"mount -t tmpfs tmpfs /opt/guestbook; for n in $(seq 100); do test -s {PROGRAM} && break; sleep 0.1; done; "
        "umount -l /opt/guestbook"
    )


@damage()
def mounted_over_read_only(site: Site) -> None:
    """A read-only file system is mounted over the files. Nothing can be repaired until the unmount."""
    site.hurt("mount -t tmpfs -o ro tmpfs /opt/guestbook")
    site.failing(managed(PROGRAM))
    site.hurt("umount -l /opt/guestbook")
