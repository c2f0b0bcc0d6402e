"""Attacks on kinds of directories and trees, and on kinds that remove, copy, link and cache."""

from __future__ import annotations

from attack_case import OURS, TRAP, USER, Case, holds, stat

HARD = "mkdir d; ln $V/secret d/secret; ln $V/open d/open; cp -a $V/dir d/moved; chown -h u d"
DIRECTORIES = [
    Case("directory-link", "file.directory", {"name": "$H/d", "user": USER, "mode": "0777"}, "ln -s $V d", either=True),
    Case(
        "directory-link-follow", "file.directory",
        {"name": "$H/d", "user": USER, "mode": "0777", "follow_symlinks": True}, "ln -s $V d", refused="$H/d",
    ),
    Case(
        "directory-parent", "file.directory", {"name": "$H/l/dir", "user": USER, "mode": "0777"}, TRAP, refused="$H/l",
    ),
    Case(
        "directory-parent-new", "file.directory", {"name": "$H/l/made", "user": USER, "mode": "0777"}, TRAP,
        refused="$H/l",
    ),
    Case(
        "directory-makedirs", "file.directory", {"name": "$H/l/a/b", "user": USER, "makedirs": True}, TRAP,
        refused="$H/l",
    ),
    Case(
        "directory-recurse-link", "file.directory", {"name": "$H/d", "user": USER, "recurse": ["user"]}, "ln -s $V d",
        either=True,
    ),
    Case(
        "directory-recurse-parent", "file.directory", {"name": "$H/l/dir", "user": USER, "recurse": ["user"]}, TRAP,
        refused="$H/l",
    ),
    Case(
        "directory-recurse-mode", "file.directory",
        {"name": "$H/l/dir", "mode": "0777", "file_mode": "0666", "recurse": ["mode"]}, TRAP, refused="$H/l",
    ),
    Case(
        "directory-recurse-hard", "file.directory",
        {
            "name": "$H/d", "user": USER, "group": USER, "mode": "0777", "file_mode": "0666",
            "recurse": ["user", "group", "mode"],
        },
        given=HARD, refused="$H/d/",
    ),
    Case(
        "directory-recurse-inside", "file.directory",
        {"name": "$H/d", "user": USER, "mode": "0777", "recurse": ["user", "mode"]},
        "mkdir d; ln -s $V d/l; ln -s $V/secret d/secret", either=True,
    ),
    Case(
        "directory-recurse-away", "file.directory", {"name": "$H/d", "user": "root", "recurse": ["user"]},
        "mkdir d; cp /bin/dash d/sh; chmod 6755 d/sh; echo >d/f", either=True,
        after='test -z "$(find d -user root -type f -perm /6000)"',
    ),
    Case(
        "directory-recurse-acl", "file.directory", {"name": "$H/d", "user": "root", "recurse": ["user"]},
        "mkdir d; echo >d/f; acl d/f", either=True, after='test "$(stat -c %U d/f)" = u || noacl d/f',
    ),
    Case("directory-clean-link", "file.directory", {"name": "$H/d", "clean": True}, "ln -s $V d", either=True),
    Case("directory-clean-parent", "file.directory", {"name": "$H/l/dir", "clean": True}, TRAP, refused="$H/l"),
    Case(
        "directory-clean-inside", "file.directory", {"name": "$H/d", "clean": True},
        "mkdir -p d/e; ln -s $V d/l; ln -s $V d/e/l; ln -s $V/secret d/secret", after='test -z "$(ls d)"',
    ),
    Case(
        "directory-clean-foreign", "file.directory", {"name": "$H/d", "clean": True},
        given="mkdir d; chown u d; cp -a $V d/moved", either=True,
    ),
    Case(
        "directory-force-link", "file.directory", {"name": "$H/d", "force": True, "allow_symlink": False}, "ln -s $V d",
        after="test -d d -a ! -L d",
    ),
    Case("directory-force-parent", "file.directory", {"name": "$H/l/open", "force": True}, TRAP, refused="$H/l"),
    Case("directory-force-file", "file.directory", {"name": "$H/d", "force": True}, "mkfifo d", after="test -d d"),
    Case(
        "directory-backup", "file.directory", {"name": "$H/d", "backupname": "$H/l/made"}, f"echo >d; {TRAP}",
        refused="$H/l",
    ),
    Case(
        "directory-backup-from", "file.directory", {"name": "$H/l/open", "backupname": "$H/taken"}, TRAP,
        refused="$H/l",
    ),
    Case(
        "directory-own", "file.directory",
        {"name": "$H/d", "user": USER, "mode": "0750", "recurse": ["user", "mode"], "file_mode": "0640"},
        "mkdir -p d/e; echo >d/e/f", after=stat("d/e/f", "u 640") + stat("d/e", "u 750"),
    ),
    Case(
        "directory-own-link", "file.directory", {"name": "$H/d", "user": USER, "mode": "0750", "follow_symlinks": True},
        "mkdir there; ln -s there d", after=stat("there", "u 750"),
    ),
    Case(
        "recurse-link", "file.recurse", {"name": "$H/d", "source": "salt://tree", "user": USER}, "ln -s $V d",
        refused="$H/d",
    ),
    Case(
        "recurse-parent", "file.recurse", {"name": "$H/l/dir", "source": "salt://tree", "user": USER}, TRAP,
        refused="$H/l",
    ),
    Case(
        "recurse-parent-new", "file.recurse", {"name": "$H/l/made", "source": "salt://tree", "user": USER}, TRAP,
        refused="$H/l",
    ),
    Case(
        "recurse-clean", "file.recurse", {"name": "$H/l/dir", "source": "salt://tree", "clean": True}, TRAP,
        refused="$H/l",
    ),
    Case(
        "recurse-below", "file.recurse", {"name": "$H/d", "source": "salt://tree", "user": USER},
        "mkdir d; ln -s $V d/sub", refused="$H/d/sub",
    ),
    Case(
        "recurse-file", "file.recurse", {"name": "$H/d", "source": "salt://tree", "user": USER},
        "mkdir d; ln -s $V/secret d/inner", after=holds("d/inner", "salt"),
    ),
    Case(
        "recurse-hard", "file.recurse",
        {"name": "$H/d", "source": "salt://tree", "user": USER, "replace": False, "file_mode": "0666"},
        given="mkdir d; ln $V/secret d/inner; chown u d", refused="$H/d/inner",
    ),
    Case(
        "recurse-moved", "file.recurse", {"name": "$H/d", "source": "salt://tree", "user": USER},
        given="mkdir d; cp -a $V/dir d/sub; chown u d", either=True, after='test "$(stat -c %U d/sub)" = root',
    ),
    Case(
        "recurse-setuid", "file.recurse", {"name": "$H/d", "source": "salt://flat"},
        "mkdir d; cp /bin/dash d/inner; chmod 6777 d/inner",
        after=holds("d/inner", "salt") + stat("d/inner", "root 644"),
    ),
    Case(
        "recurse-acl", "file.recurse", {"name": "$H/d", "source": "salt://flat"},
        "mkdir d; echo old >d/inner; acl d/inner",
        after=holds("d/inner", "salt") + stat("d/inner", "root 644") + "noacl d/inner",
    ),
    Case(
        "recurse-own", "file.recurse", {"name": "$H/d", "source": "salt://tree", "user": USER, "clean": True},
        "mkdir d; echo >d/extra", after=holds("d/inner", "salt") + stat("d/inner", "u 644") + "test ! -e d/extra",
    ),
]  # fmt: skip

OTHERS = [
    Case("absent-parent", "file.absent", {"name": "$H/l/open"}, TRAP, refused="$H/l"),
    Case("absent-parent-tree", "file.absent", {"name": "$H/l/dir"}, TRAP, refused="$H/l"),
    Case("absent-parent-up", "file.absent", {"name": "$H/l/dir"}, "ln -s x l; ln -s $V x", refused="$H/x"),
    Case("absent-link", "file.absent", {}, "ln -s $V f", after="test ! -L f"),
    Case("absent-tree", "file.absent", {}, "mkdir -p f/g; ln -s $V f/l; ln -s $V f/g/l", after="test ! -e f"),
    Case("absent-moved", "file.absent", {}, given="mkdir f; chown u f; cp -a $V f/moved", either=True),
    Case(
        "absent-deep", "file.absent", {"name": "/dev/shm/deep/f"}, "mkdir /dev/shm/deep; cd /dev/shm/deep; deep f 3000",
        either=True,
    ),
    Case("symlink-parent", "file.symlink", {"name": "$H/l/made", "target": "/x", "user": USER}, TRAP, refused="$H/l"),
    Case(
        "symlink-parent-force", "file.symlink", {"name": "$H/l/dir", "target": "/x", "force": True}, TRAP,
        refused="$H/l",
    ),
    Case(
        "symlink-makedirs", "file.symlink", {"name": "$H/l/a/b", "target": "/x", "makedirs": True, "user": USER}, TRAP,
        refused="$H/l",
    ),
    Case(
        "symlink-backup", "file.symlink", {"target": "/x", "backupname": "$H/l/made"}, f"echo >f; {TRAP}",
        refused="$H/l",
    ),
    Case(
        "symlink-owner", "file.symlink", {"target": "$V/secret", "user": USER}, "ln -s $V/secret f",
        after=stat("f", "u", "%U"),
    ),
    Case(
        "symlink-moved", "file.symlink", {"target": "/x", "user": USER, "force": True}, given="cp -a $V f", either=True,
    ),
    Case("symlink-own", "file.symlink", {"target": "there", "user": USER}, after=stat("f", "u", "%U")),
    Case("touch-link", "file.touch", {}, "ln -s $V/open f", refused="$H/f"),
    Case("touch-link-time", "file.touch", {"mtime": 1, "atime": 1}, "ln -s $V/open f", refused="$H/f"),
    Case("touch-parent", "file.touch", {"name": "$H/l/open"}, TRAP, refused="$H/l"),
    Case("touch-parent-new", "file.touch", {"name": "$H/l/made"}, TRAP, refused="$H/l"),
    Case("touch-makedirs", "file.touch", {"name": "$H/l/a/b", "makedirs": True}, TRAP, refused="$H/l"),
    Case("touch-hard", "file.touch", {"mtime": 1, "atime": 1}, given="ln $V/open f", refused="$H/f"),
    Case("touch-own", "file.touch", {"mtime": 7, "atime": 7}, "echo >f", after=stat("f", "u 7", "%U %Y")),
    Case(
        "copy-parent", "file.copy", {"name": "$H/l/made", "source": "$O/f", "user": USER}, TRAP, given="echo >$O/f",
        refused="$H/l",
    ),
    Case(
        "copy-parent-force", "file.copy", {"name": "$H/l/open", "source": "$O/f", "force": True}, TRAP,
        given="echo >$O/f", refused="$H/l",
    ),
    Case(
        "copy-makedirs", "file.copy", {"name": "$H/l/a/b", "source": "$O/f", "makedirs": True}, TRAP,
        given="echo >$O/f", refused="$H/l",
    ),
    Case(
        "copy-force-setuid", "file.copy", {"source": "$O/f", "force": True}, "cp /bin/dash f; chmod 6777 f",
        given="echo x >$O/f", either=True, after='test -z "$(find f -user root -perm /6022)"',
    ),
    Case(
        "copy-force-acl", "file.copy", {"source": "$O/f", "force": True, "user": "root"}, "echo old >f; acl f",
        given="echo x >$O/f", either=True, after='test "$(stat -c %U f)" = u || noacl f',
    ),
    Case(
        "copy-first", "file.copy", {"source": "$O/f", "force": True}, "echo old >f", given="echo x >$O/f", either=True,
        after='test "$(stat -c %U f)" != u -o "$(cat f)" = old',
    ),
    Case(
        "rename-parent", "file.rename", {"name": "$H/l/made", "source": "$O/f"}, TRAP, given="echo >$O/f",
        refused="$H/l",
    ),
    Case(
        "rename-parent-force", "file.rename", {"name": "$H/l/dir", "source": "$O/f", "force": True}, TRAP,
        given="echo >$O/f", refused="$H/l",
    ),
    Case("rename-source", "file.rename", {"name": "$H/got", "source": "$H/l/secret"}, TRAP, refused="$H/l"),
    Case("rename-source-tree", "file.rename", {"name": "$H/got", "source": "$H/l/dir"}, TRAP, refused="$H/l"),
    Case(
        "rename-source-across", "file.rename", {"name": "/dev/shm/rename-across", "source": "$H/l/secret"}, TRAP,
        refused="$H/l",
    ),
    Case(
        "rename-link-across", "file.rename", {"name": "/dev/shm/rename-link", "source": "$H/f"}, "ln -s $V/secret f",
        either=True, after="test ! -e /dev/shm/rename-link -o -L /dev/shm/rename-link",
    ),
    Case(
        "rename-hard-across", "file.rename", {"name": "$H/got", "source": "/dev/shm/d/f"},
        given="install -d -o u /dev/shm/d; cp -a $V/secret /dev/shm/d/f", either=True,
        after='test "$(stat -c %a%U /dev/shm/d/f)" = 600root || test "$(stat -c %a%U got)" = 600root',
    ),
    Case(
        "rename-tree-across", "file.rename", {"name": "/dev/shm/rename-tree", "source": "$H/f"},
        "mkdir f; ln -s $V f/l; ln -s $V/secret f/secret", either=True,
        after="test ! -e /dev/shm/rename-tree -o -L /dev/shm/rename-tree/secret",
    ),
    Case("exists-parent", "file.exists", {"name": "$H/l/private/inner"}, TRAP, either=True),
    Case(
        "cwd-link", "cmd.run", {"name": "cat inner >$H/leaked; pwd", "runas": USER, "cwd": "$H/l"},
        "ln -s $V/private l", either=True, after="test ! -s leaked",
    ),
    Case(
        "cwd-parent", "cmd.run",
        {"name": "cat ../private/inner >$H/leaked", "runas": USER, "cwd": "$H/l/private/below"}, TRAP,
        given="mkdir $V/private/below; echo secret of >$V/private/inner", either=True, after="test ! -s leaked",
    ),
    Case(
        "cwd-script", "cmd.script", {"name": "x", "source": "salt://cat.sh", "runas": USER, "cwd": "$H/l"},
        "ln -s $V/private l", either=True, after="test ! -s leaked",
    ),
    Case(
        "cwd-guard", "cmd.run", {"name": "true", "onlyif": "cat inner >$H/leaked", "runas": USER, "cwd": "$H/l"},
        "ln -s $V/private l", either=True, after="test ! -s leaked",
    ),
    Case(
        "cwd-own", "cmd.run", {"name": "pwd -P >where", "runas": USER, "cwd": "$H/d"}, "mkdir d",
        after=holds("d/where", "$H/d"),
    ),
    Case("creates-link", "cmd.run", {"name": "echo ran >$O/ran", "creates": "$H/l/dir"}, TRAP, either=True),
    Case("creates-plain", "cmd.run", {"name": "echo ran >$O/ran", "creates": "$H/made"}, after=holds("$O/ran", "ran")),
    Case(
        "sysctl-parent", "sysctl.present", {"name": "net.ipv4.ip_forward", "value": 0, "config": "$H/l/99.conf"}, TRAP,
        refused="$H/l",
    ),
    Case(
        "fine-own-file", "file.managed", OURS, "echo old >f; chmod 600 f", after=holds("f", "new") + stat("f", "u 600"),
    ),
    Case(
        "fine-own-link", "file.managed", OURS, "echo old >there; ln -s there f",
        after="test -L f\n" + holds("there", "new") + stat("there", "u", "%U"),
    ),
    Case(
        "fine-absolute-link", "file.managed", OURS, "echo old >there; ln -s $H/there f",
        after="test -L f\n" + holds("there", "new"),
    ),
    Case(
        "fine-own-parent", "file.managed", {**OURS, "name": "$H/l/f"}, "mkdir there; ln -s there l",
        after=holds("there/f", "new") + stat("there/f", "u", "%U"),
    ),
    Case(
        "fine-own-parent-absolute", "file.managed", {**OURS, "name": "$H/l/f"}, "mkdir there; ln -s $H/there l",
        after=holds("there/f", "new"),
    ),
    Case(
        "fine-roots-link", "file.managed", {"name": "/var/run/fine", "contents": "new"},
        after=holds("/run/fine", "new") + "test -L /var/run",
    ),
    Case(
        "fine-roots-link-own", "file.managed", {"name": "$O/l/f", "contents": "new"},
        given="ln -s $V/dir $O/l; mkdir -p $V/there; ln -sfn $H/there $O/l; mkdir there; chown u there",
        after=holds("there/f", "new"),
    ),
    Case(
        "fine-www-data", "file.managed", {"name": "$O/f", "contents": "new"},
        given="echo old >$O/f; chown www-data:www-data $O/f; chmod 640 $O/f",
        after=holds("$O/f", "new") + stat("$O/f", "www-data www-data 640", "%U %G %a"),
    ),
    Case(
        "fine-www-data-edit", "file.append", {"name": "$O/f", "text": "more"},
        given="echo old >$O/f; chown www-data:www-data $O/f; chmod 640 $O/f",
        after=stat("$O/f", "www-data www-data 640", "%U %G %a") + "grep -q more $O/f",
    ),
    Case(
        "fine-roots-setuid", "file.managed", {"name": "$O/f", "contents": "new", "mode": "4755"},
        given="cp /bin/dash $O/f", after=stat("$O/f", "root 4755"),
    ),
    Case(
        "fine-roots-acl", "file.managed", {"name": "$O/f", "contents": "new"}, given="echo old >$O/f; acl $O/f",
        after=holds("$O/f", "new") + "! noacl $O/f 2>/dev/null",
    ),
    Case(
        "fine-roots-link-file", "file.managed", {"name": "$O/f", "contents": "new"},
        given="echo old >$O/there; ln -s there $O/f", after=holds("$O/there", "new") + "test -L $O/f",
    ),
]  # fmt: skip
