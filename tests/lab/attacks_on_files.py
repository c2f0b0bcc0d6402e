"""Attacks on kinds that write or edit one file."""

from __future__ import annotations

from typing import Any

from attack_case import OURS, ROOTS, TRAP, USER, Case, holds, stat

MANAGED = [
    Case("managed-link", "file.managed", OURS, "ln -s $V/secret f", after=holds("f", "new") + stat("f", "u 644")),
    Case(
        "managed-link-shadow", "file.managed", OURS, "ln -s /etc/shadow f",
        after=holds("f", "new") + stat("f", "u 644"),
    ),
    Case("managed-link-true", "file.managed", OURS | {"follow_symlinks": True}, "ln -s $V/secret f", refused="$H/f"),
    Case(
        "managed-link-false", "file.managed", OURS | {"follow_symlinks": False}, "ln -s $V/secret f",
        after=holds("f", "new"),
    ),
    Case("managed-link-kept", "file.managed", OURS | {"replace": False}, "ln -s $V/secret f", either=True),
    Case("managed-link-mode", "file.managed", {"mode": "0666", "replace": False}, "ln -s $V/secret f", either=True),
    Case(
        "managed-link-chain", "file.managed", OURS, "ln -s g f; ln -s h g; ln -s $V/secret h", after=holds("f", "new"),
    ),
    Case("managed-link-proc", "file.managed", OURS, "ln -s /proc/self/root$V/secret f", after=holds("f", "new")),
    Case("managed-link-cwd", "file.managed", OURS, "ln -s /proc/self/cwd/etc/shadow f", after=holds("f", "new")),
    Case("managed-link-up", "file.managed", OURS, "ln -s ../../..$V/secret f", after=holds("f", "new")),
    Case("managed-link-dangling", "file.managed", OURS, "ln -s $V/made f", after=holds("f", "new")),
    Case("managed-link-device", "file.managed", OURS, "ln -s /dev/null f", after=holds("f", "new")),
    Case(
        "managed-link-same", "file.managed", OURS | {"contents": "same"}, "ln -s $V/same f", given="echo same >$V/same",
        after=holds("f", "same"),
    ),
    Case("managed-parent", "file.managed", {**OURS, "name": "$H/l/secret"}, TRAP, refused="$H/l"),
    Case("managed-parent-new", "file.managed", {**OURS, "name": "$H/l/made"}, TRAP, refused="$H/l"),
    Case(
        "managed-parent-kept", "file.managed", {**OURS, "name": "$H/l/secret", "replace": False}, TRAP, refused="$H/l",
    ),
    Case(
        "managed-parent-false", "file.managed", {**OURS, "name": "$H/l/secret", "follow_symlinks": False}, TRAP,
        refused="$H/l",
    ),
    Case(
        "managed-parent-true", "file.managed", {**OURS, "name": "$H/l/secret", "follow_symlinks": True}, TRAP,
        refused="$H/l",
    ),
    Case("managed-parent-root", "file.managed", {"contents": "new", "name": "$H/l/made"}, TRAP, refused="$H/l"),
    Case(
        "managed-parent-etc", "file.managed", {**OURS, "name": "$H/.ssh/authorized_keys"}, "ln -s /etc .ssh",
        refused="$H/.ssh",
    ),
    Case(
        "managed-parent-cron", "file.managed", {**ROOTS, "name": "$H/conf/job"}, "ln -s /etc/cron.d conf",
        refused="$H/conf",
    ),
    Case(
        "managed-parent-deep", "file.managed", {**OURS, "name": "$H/a/b/c/secret"},
        "mkdir a; ln -s b2 a/b; ln -s $V a/b2", refused="$H/a/b", given="mkdir $V/c",
    ),
    Case(
        "managed-parent-exec", "file.managed", {**OURS, "name": "$H/l/secret", "check_cmd": ["test -s"]}, TRAP,
        refused="$H/l",
    ),
    Case("managed-makedirs", "file.managed", {**OURS, "name": "$H/l/a/b/f", "makedirs": True}, TRAP, refused="$H/l"),
    Case(
        "managed-makedirs-dangling", "file.managed", {**OURS, "name": "$H/l/b/f", "makedirs": True}, "ln -s $V/made l",
        refused="$H/l",
    ),
    Case(
        "managed-makedirs-fine", "file.managed", {**OURS, "name": "$H/a/b/f", "makedirs": True},
        after=holds("a/b/f", "new") + stat("a/b", "u 755"),
    ),
    Case("managed-backup", "file.managed", OURS | {"backup": "minion"}, "ln -s $V/secret f", after=holds("f", "new")),
    Case(
        "managed-hard", "file.managed", OURS, given="ln $V/secret f", either=True,
        after="test $(stat -c %h $V/secret) -le 2",
    ),
    Case(
        "managed-hard-same", "file.managed", OURS | {"contents": "same", "mode": "0666"},
        given="echo same >$V/same; ln $V/same f", either=True,
    ),
    Case(
        "managed-hard-kept", "file.managed", OURS | {"mode": "0666", "replace": False}, given="ln $V/secret f",
        refused="$H/f",
    ),
    Case("managed-hard-open", "file.managed", OURS | {"replace": False}, given="ln $V/open f", refused="$H/f"),
    Case("managed-moved", "file.managed", OURS | {"replace": False}, given="cp -a $V/open f", refused="$H/f"),
    Case(
        "managed-moved-whole", "file.managed", OURS, given="cp -a $V/open f",
        after=holds("f", "new") + stat("f", "u 644"),
    ),
    Case(
        "managed-setuid", "file.managed", ROOTS, "cp /bin/dash f; chmod 6777 f",
        after=holds("f", "new") + stat("f", "root 644"),
    ),
    Case(
        "managed-setuid-same", "file.managed", ROOTS, "echo new >f; chmod 6777 f",
        after=holds("f", "new") + stat("f", "root 644"),
    ),
    Case(
        "managed-setuid-mode", "file.managed", ROOTS | {"mode": "0755"}, "echo new >f; chmod 6755 f",
        after=holds("f", "new") + stat("f", "root 755"),
    ),
    Case(
        "managed-setuid-given", "file.managed", ROOTS | {"user": "root"}, "cp /bin/dash f; chmod 6777 f",
        after=holds("f", "new") + stat("f", "root 644"),
    ),
    Case(
        "managed-setuid-other", "file.managed", ROOTS | {"user": "www-data"}, "cp /bin/dash f; chmod 6777 f",
        after=holds("f", "new") + stat("f", "www-data 644"),
    ),
    Case(
        "managed-setuid-own", "file.managed", OURS, "cp /bin/dash f; chmod 4755 f",
        after=holds("f", "new") + stat("f", "u 755"),
    ),
    Case(
        "managed-acl", "file.managed", ROOTS, "echo old >f; acl f",
        after=holds("f", "new") + stat("f", "root 644") + "noacl f",
    ),
    Case(
        "managed-acl-same", "file.managed", ROOTS, "echo new >f; acl f",
        after=holds("f", "new") + stat("f", "root 644") + "noacl f",
    ),
    Case(
        "managed-acl-mode", "file.managed", ROOTS | {"user": "root", "mode": "0640"}, "echo new >f; acl f",
        after=holds("f", "new") + "noacl f",
    ),
    Case(
        "managed-acl-kept", "file.managed", {"user": "root", "replace": False}, "echo new >f; acl f", either=True,
        after='test "$(stat -c %U f)" = u || noacl f',
    ),
    Case(
        "managed-first", "file.managed", ROOTS, "echo old >f",
        after=holds("f", "new") + stat("f", "root root 644", "%U %G %a"),
    ),
    Case(
        "managed-first-same", "file.managed", ROOTS, "echo new >f; chmod 666 f",
        after=holds("f", "new") + stat("f", "root root 644", "%U %G %a"),
    ),
    Case(
        "managed-first-sticky", "file.managed", {**ROOTS, "name": "/tmp/managed-first-sticky"},
        "(umask 0; echo new >/tmp/managed-first-sticky)", after=stat("/tmp/managed-first-sticky", "root 644"),
    ),
    Case(
        "managed-link-sticky", "file.managed", {**ROOTS, "name": "/tmp/managed-link-sticky"},
        "ln -s $V/secret /tmp/managed-link-sticky", after=holds("/tmp/managed-link-sticky", "new"),
    ),
    Case(
        "managed-held-open", "file.managed", ROOTS,
        "echo new >f; mkfifo go went; (exec 9>>f; read go <go; echo evil >&9; echo >went) </dev/null >/dev/null 2>&1 &",
        after="timeout 5 sh -c 'echo >go; read went <went'\n" + holds("f", "new"),
    ),
    Case(
        "managed-default-acl-closed", "file.managed", ROOTS | {"mode": "0640"}, "acl default .",
        after="! runuser -u u cat f >/dev/null 2>&1",
    ),
    Case(
        "managed-default-acl", "file.managed", ROOTS, "acl default .",
        after=holds("f", "new") + stat("f", "root 644") + "noacl f",
    ),
    Case("managed-fifo", "file.managed", OURS, "mkfifo f", refused="$H/f"),
    Case("managed-huge", "file.managed", OURS, "truncate -s 1T f", after=holds("f", "new")),
    Case("managed-huge-kept", "file.managed", OURS | {"replace": False}, "truncate -s 1T f"),
    Case("managed-huge-backup", "file.managed", OURS | {"backup": "minion"}, "truncate -s 1T f", either=True),
    Case("managed-loop", "file.managed", OURS, "ln -s f f", either=True),
    Case("managed-parent-file", "file.managed", {**OURS, "name": "$H/d/f"}, "echo >d", refused="$H/d"),
    Case(
        "managed-temporaries", "file.managed", OURS,
        "python3 -c 'import os; [os.symlink(\"$V/secret\", "
        "f\".f.holdfast-{p:x}-{n:x}\") for n in range(50) for p in range(1, 400)]'",
        after=holds("f", "new"),
    ),
    Case(
        "managed-moved-same", "file.managed", OURS, given="echo new >f; echo kept >>$V/n; ln f $V/linked",
        after=holds("f", "new") + stat("f", "u", "%U") + stat("$V/linked", "root", "%U"),
    ),
    Case(
        "managed-setgid-group", "file.managed", {"group": "shadow", "replace": False}, "cp /bin/dash f; chmod 6745 f",
        either=True, after='test -z "$(find f -group shadow -perm /6000)"',
    ),
    Case(
        "managed-setgid-group-content", "file.managed", ROOTS | {"group": "shadow"}, "cp /bin/dash f; chmod 6775 f",
        after=stat("f", "root shadow 644", "%U %G %a"),
    ),
    Case(
        "managed-lease", "file.managed", OURS,
        "echo old >f; mkfifo ready; python3 -c 'import fcntl, os, time; d = os.open(\"f\", os.O_RDWR); fcntl.fcntl(d, "
        'fcntl.F_SETLEASE, fcntl.F_WRLCK); open("ready", "w").close(); '
        "time.sleep(60)' </dev/null >/dev/null 2>&1 & cat ready",
        either=True,
    ),
    Case(
        "managed-escape", "file.managed", {**OURS, "name": "$H/l/f"},
        "mkdir $'a\\n\\e[31mroot: all is well'; ln -s $'a\\n\\e[31mroot: all is well/../../../..'$V l", refused="$H/l",
    ),
    Case(
        "managed-bytes", "file.managed", {**OURS, "name": "$H/l/f"}, "ln -s $'/srv/\\xff\\xfe\\xe2\\x28' l",
        refused="$H/l",
    ),
    Case(
        "managed-bytes-up", "file.managed", {**OURS, "name": "$H/l/f"},
        "ln -s $'\\xff/../../../..'$V l; mkdir $'\\xff'", refused="$H/l",
    ),
    Case(
        "managed-bytes-own", "file.managed", OURS, "mkdir $'\\xff'; echo old >$'\\xff/there'; ln -s $'\\xff/there' f",
        after="test -L f; grep -q new f",
    ),
    Case(
        "managed-long", "file.managed", OURS, "ln -s $(printf '%04000d' 0 | sed 's/0/.\\//g' | head -c 4000)f2 f",
        either=True,
    ),
    Case(
        "managed-setgid-directory", "file.managed", ROOTS | {"mode": "0640"}, "chmod 2755 .",
        after="! runuser -u u cat f >/dev/null 2>&1\n" + stat("f", "root root 640", "%U %G %a"),
    ),
    Case(
        "managed-setgid-existing", "file.managed", ROOTS | {"mode": "0640"}, "chmod 2755 .; echo old >f",
        after="! runuser -u u cat f >/dev/null 2>&1",
    ),
    Case(
        "managed-group-kept", "file.managed", ROOTS | {"mode": "0640", "user": "root"}, "echo old >f",
        after="! runuser -u u cat f >/dev/null 2>&1",
    ),
    Case(
        "managed-setgid-parents", "file.managed",
        ROOTS | {"name": "$H/a/b/f", "mode": "0660", "makedirs": True, "dir_mode": "0770"}, "chmod 2755 .",
        after="! runuser -u u ls a a/b >/dev/null 2>&1",
    ),
    Case(
        "managed-acl-parents", "file.managed",
        ROOTS | {"name": "$H/a/b/f", "mode": "0660", "makedirs": True, "dir_mode": "0770"}, "acl default .",
        after="! runuser -u u ls a a/b >/dev/null 2>&1",
    ),
    Case(
        "directory-setgid", "file.directory", {"name": "$H/d", "mode": "0770"}, "chmod 2755 .",
        after="! runuser -u u ls d >/dev/null 2>&1",
    ),
    Case(
        "directory-acl", "file.directory", {"name": "$H/d", "mode": "0770"}, "acl default .",
        after="! runuser -u u ls d >/dev/null 2>&1",
    ),
    Case(
        "recurse-setgid-directory", "file.recurse",
        {"name": "$H/d", "source": "salt://flat", "file_mode": "0640", "dir_mode": "0750"}, "chmod 2755 .", either=True,
        after="! runuser -u u ls d >/dev/null 2>&1",
    ),
    Case(
        "copy-setgid-directory", "file.copy", {"source": "$O/f", "mode": "0640"}, "chmod 2755 .", given="echo x >$O/f",
        after="! runuser -u u cat f >/dev/null 2>&1",
    ),
    Case(
        "fine-check-cmd", "file.managed", OURS | {"check_cmd": ["grep -q new"]}, "echo old >f", after=holds("f", "new"),
    ),
    Case("managed-noname", "file.managed", OURS, "mkdir f", refused="$H/f"),
]  # fmt: skip

SOURCES = [
    Case("source-link", "file.managed", {"name": "$O/f", "source": "$H/src"}, "ln -s $V/secret src", refused="$H/src"),
    Case(
        "source-link-keep", "file.managed", {"name": "$O/f", "source": "$H/src", "mode": "keep"}, "ln -s $V/secret src",
        refused="$H/src",
    ),
    Case(
        "source-link-url", "file.managed", {"name": "$O/f", "source": "file://$H/src"}, "ln -s $V/secret src",
        refused="$H/src",
    ),
    Case(
        "source-link-shadow", "file.managed", {"name": "$O/f", "source": "$H/src"}, "ln -s /etc/shadow src",
        refused="$H/src",
    ),
    Case(
        "source-link-proc", "file.managed", {"name": "$O/f", "source": "$H/src"}, "ln -s /proc/self/environ src",
        refused="$H/src",
    ),
    Case(
        "source-link-first", "file.managed", {"name": "$O/f", "source": ["$H/none", "$H/src"]}, "ln -s $V/secret src",
        refused="$H/src",
    ),
    Case("source-parent", "file.managed", {"name": "$O/f", "source": "$H/l/secret"}, TRAP, refused="$H/l"),
    Case(
        "source-hard", "file.managed", {"name": "$O/f", "source": "$H/src"}, given="ln $V/secret src", refused="$H/src",
    ),
    Case(
        "source-keep-setuid", "file.managed", {"name": "$O/f", "source": "$H/src", "mode": "keep"},
        "cp /bin/dash src; chmod 6755 src", either=True, after='test -z "$(find $O -user root -perm /6000)"',
    ),
    Case(
        "recurse-keep-setuid", "file.recurse", {"name": "$O/d", "source": "$H/src", "file_mode": "keep"},
        "mkdir src; cp /bin/dash src/sh; chmod 6755 src/sh", either=True,
        after='test -z "$(find $O -type f -user root -perm /6000)"',
    ),
    Case(
        "recurse-source-loop", "file.recurse", {"name": "$O/d", "source": "$H/src"},
        "mkdir src; for n in 1 2 3 4 5 6 7 8 9; do ln -s . src/$n; done", either=True,
        after='test "$(find $O | head -100001 | wc -l)" -lt 100000',
    ),
    Case(
        "recurse-source-bytes", "file.recurse", {"name": "$O/d", "source": "$H/src"},
        "mkdir src; echo mine >src/$'\\xff'; echo mine >src/$'a\\nb'; echo mine >src/f", after=holds("$O/d/f", "mine"),
    ),
    Case(
        "recurse-source-odd", "file.recurse", {"name": "$O/d", "source": "$H/src"},
        "mkdir src; mkfifo src/fifo; ln -s fifo src/l; truncate -s 1T src/sparse; echo mine >src/f", either=True,
    ),
    Case("source-fifo", "file.managed", {"name": "$O/f", "source": "$H/src"}, "mkfifo src", refused="$H/src"),
    Case("source-huge", "file.managed", {"name": "$O/f", "source": "$H/src"}, "truncate -s 1T src", refused="$H/src"),
    Case(
        "source-plain", "file.managed", {"name": "$O/f", "source": "$H/src"}, "echo mine >src",
        after=holds("$O/f", "mine"),
    ),
    Case(
        "source-own-link", "file.managed", {"name": "$O/f", "source": "$H/src"}, "echo mine >there; ln -s there src",
        after=holds("$O/f", "mine"),
    ),
    Case(
        "source-template", "file.managed", {"name": "$O/f", "source": "$H/src", "template": "jinja"},
        "echo \"{{ salt['file.read']('$V/secret') }}\" >src", refused="$H/src",
    ),
    Case(
        "source-template-plain", "file.managed", {"name": "$O/f", "source": "$H/src", "template": "jinja"},
        "echo plain >src", refused="$H/src",
    ),
    Case(
        "source-template-link", "file.managed", {"name": "$O/f", "source": "$H/src", "template": "jinja"},
        "echo \"{{ salt['file.read']('$V/secret') }}\" >there; ln -s there src", refused="$H/",
    ),
    Case(
        "source-template-dir", "file.managed", {"name": "$O/f", "source": "$H/l/src", "template": "jinja"},
        given="mkdir $V/l; echo \"{{ salt['file.read']('$V/secret') }}\" >$V/l/src; chown -R u $V/l; ln -s $V/l l",
        refused="/l",
    ),
    Case(
        "source-hash", "file.managed", {"name": "$O/f", "source": "$V/open", "source_hash": "$H/sums"},
        "ln -s $V/secret sums", refused="$H/sums",
    ),
    Case(
        "recurse-source", "file.recurse", {"name": "$O/d", "source": "$H/src"},
        "mkdir src; ln -s $V/secret src/secret; ln -s $V src/dir; echo mine >src/mine", refused="$H/src",
    ),
    Case("recurse-source-link", "file.recurse", {"name": "$O/d", "source": "$H/src"}, "ln -s $V src", refused="$H/src"),
    Case("recurse-source-parent", "file.recurse", {"name": "$O/d", "source": "$H/l/dir"}, TRAP, refused="$H/l"),
    Case(
        "recurse-source-hard", "file.recurse", {"name": "$O/d", "source": "$H/src"},
        "mkdir src2; mv src2/* src 2>/dev/null || true", given="mkdir src; chown u src; ln $V/secret src/secret",
        refused="$H/src/secret",
    ),
    Case(
        "recurse-source-template", "file.recurse", {"name": "$O/d", "source": "$H/src", "template": "jinja"},
        "mkdir src; echo \"{{ salt['file.read']('$V/secret') }}\" >src/f", refused="$H/src",
    ),
    Case(
        "recurse-source-plain", "file.recurse", {"name": "$O/d", "source": "$H/src"}, "mkdir src; echo mine >src/f",
        after=holds("$O/d/f", "mine"),
    ),
    Case("append-source", "file.append", {"name": "$O/f", "source": "$H/src"}, "ln -s $V/secret src", refused="$H/src"),
    Case(
        "append-source-template", "file.append", {"name": "$O/f", "source": "$H/src", "template": "jinja"},
        "echo \"{{ salt['file.read']('$V/secret') }}\" >src", refused="$H/src",
    ),
    Case(
        "block-source", "file.blockreplace", {"name": "$O/f", "source": "$H/src", "append_if_not_found": True},
        "ln -s $V/secret src", given="echo >$O/f", refused="$H/src",
    ),
    Case(
        "copy-source", "file.copy", {"name": "$O/f", "source": "$H/src", "mode": "0644"}, "ln -s $V/secret src",
        refused="$H/src",
    ),
    Case(
        "copy-source-parent", "file.copy", {"name": "$O/f", "source": "$H/l/secret", "mode": "0644"}, TRAP,
        refused="$H/l",
    ),
    Case(
        "copy-source-hard", "file.copy", {"name": "$O/f", "source": "$H/src", "mode": "0644"}, given="ln $V/secret src",
        refused="$H/src",
    ),
    Case(
        "copy-source-setuid", "file.copy", {"name": "$O/f", "source": "$H/src"}, "echo mine >src; chmod 6755 src",
        after='test -z "$(find $O/f -perm /6000 -user root)"',
    ),
    Case("copy-source-huge", "file.copy", {"name": "$O/f", "source": "$H/src"}, "truncate -s 1T src", refused="$H/src"),
    Case(
        "copy-source-fine", "file.copy", {"name": "$O/f", "source": "$H/src"}, "echo mine >src",
        after=holds("$O/f", "mine"),
    ),
    Case(
        "cron-source", "cron.file", {"name": "$H/src", "user": USER}, "ln -s $V/secret src", refused="$H/src",
        after=f"! crontab -l -u {USER} 2>/dev/null",
    ),
    Case(
        "script-source", "cmd.script", {"name": "x", "source": "$H/src", "runas": USER}, "ln -s $V/secret src",
        refused="$H/src",
    ),
    Case(
        "script-source-run", "cmd.script", {"name": "x", "source": "$H/src", "runas": USER}, "ln -s $V/script src",
        given="printf '#!/bin/sh\\ncat $0 >$H/leaked\\n# secret of x\\n' >$V/script; chmod 700 $V/script",
        refused="$H/src",
    ),
    Case(
        "script-template", "cmd.script", {"name": "x", "source": "$H/src", "template": "jinja", "runas": USER},
        "printf '#!/bin/sh\\necho \"%s\" >$H/leaked\\n' \"{{ salt['file.read']('$V/secret') }}\" >src",
        refused="$H/src",
    ),
    Case(
        "script-fine", "cmd.script", {"name": "x", "source": "$H/src", "runas": USER},
        "printf '#!/bin/sh\\nid -un >$H/who\\n' >src", after=holds("who", "u"),
    ),
]  # fmt: skip

EDITS: dict[str, dict[str, Any]] = {
    "append": {"text": "more"},
    "prepend": {"text": "more"},
    "replace": {"pattern": "^key=.*$", "repl": "key=2"},
    "line": {"mode": "ensure", "content": "more", "after": "^anchor"},
    "blockreplace": {"marker_start": "#-- start", "marker_end": "#-- end", "content": "more"},
    "keyvalue": {"key": "key", "value": "2"},
    "comment": {"regex": "^key"},
    "uncomment": {"regex": "^old"},
    "ini.options_present": {"sections": {"key": "2", "section": {"key": "2"}}},
    "ini.options_absent": {"sections": {"key": None}},
}


def backups(verb: str, kind: str, words: dict[str, Any], inside: dict[str, Any]) -> list[Case]:
    """Return an editing kind that keeps a backup, with traps."""
    return [
        Case(f"{verb}-parent-backup", kind, inside | {"backup": ".bak"}, TRAP, refused="$H/l"),
        Case(f"{verb}-minion", kind, inside | {"backup": "minion"}, TRAP, refused="$H/l"),
        Case(
            f"{verb}-backup", kind, words | {"backup": ".bak"}, "cp $V/open f; ln -s $V/secret f.bak", either=True,
        ),
        Case(
            f"{verb}-backup-own", kind, words | {"backup": ".bak"},
            "cp $V/open f; cp /bin/dash f.bak; chmod 4755 f.bak", either=True,
            after='test -z "$(find . -user root -perm /6000)"',
        ),
    ]  # fmt: skip


def edits() -> list[Case]:
    """Return each editing kind with each trap."""
    cases = []
    for verb, arguments in EDITS.items():
        kind, words = verb if "." in verb else f"file.{verb}", {**arguments}
        inside = {**words, "name": "$H/l/open"}
        cases += [
            Case(f"{verb}-link", kind, words, "ln -s $V/open f", refused="$H/f"),
            Case(f"{verb}-parent", kind, inside, TRAP, refused="$H/l"),
            Case(f"{verb}-hard", kind, words, given="ln $V/open f", refused="$H/f"),
            Case(f"{verb}-moved", kind, words, given="cp -a $V/open f", refused="$H/f"),
            Case(f"{verb}-huge", kind, words, "truncate -s 1T f", refused="$H/f"),
            Case(f"{verb}-fifo", kind, words, "mkfifo f", refused="$H/f"),
            Case(
                f"{verb}-own", kind, words, "cp $V/open f; chmod 640 f",
                after=stat("f", "u u 640", "%U %G %a") + "! cmp -s f $V/open",
            ),
            Case(
                f"{verb}-own-link", kind, words, "cp $V/open there; ln -s there f",
                after="test -L f; ! cmp -s there $V/open; " + stat("there", "u 644"),
            ),
        ]  # fmt: skip
        cases += backups(verb, kind, words, inside) if kind.startswith("file.") else []
    return [
        *cases,
        Case("append-dangling", "file.append", {"text": "more"}, "ln -s $V/made f", refused="$H/f"),
        Case("append-parent-made", "file.append", {"text": "more", "name": "$H/l/made"}, TRAP, refused="$H/l"),
        Case(
            "append-makedirs", "file.append", {"text": "more", "name": "$H/l/a/f", "makedirs": True}, TRAP,
            refused="$H/l",
        ),
        Case(
            "append-set-uid", "file.append", {"text": "more"}, "cp /bin/dash f; chmod 6755 f", either=True,
            after='test -z "$(find f -user root -perm /6000)"',
        ),
        Case(
            "keyvalue-made", "file.keyvalue",
            {"name": "$H/l/made", "key": "a", "value": "b", "create_if_missing": True, "append_if_not_found": True},
            TRAP, refused="$H/l",
        ),
    ]  # fmt: skip
