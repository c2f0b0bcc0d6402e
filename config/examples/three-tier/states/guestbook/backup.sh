#!/bin/sh
# Back up the guest book, and keep the last {{ keep }} backups.
set -eu
cd /var/backups/guestbook
python3 - "$(date +%F).db" <<'END'
import sqlite3, sys
with sqlite3.connect("/var/lib/guestbook/book.db") as book, sqlite3.connect(sys.argv[1]) as copy:
    book.backup(copy)
END
ls -r ./*.db | tail -n +{{ keep + 1 }} | xargs -r rm --
