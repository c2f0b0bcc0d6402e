"""Runs in the guest: reads files all the time, and records each one that it has seen half-written."""

import os
import sys
import time
from pathlib import Path

PATHS = ("/srv/chaos/large", "/etc/guestbook.json", "/opt/guestbook/serve.py", "/srv/small/file")
seen, whole = {}, {path: Path(path).read_bytes() for path in PATHS}
sys.stdout.write("ready\n")
sys.stdout.flush()
while True:
    for path in PATHS:
        try:
            with open(
                path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
            ) as file:
                s = os.fstat(file.fileno())
                key = (s.st_ino, s.st_size, s.st_mtime_ns)
                if seen.get(path) != key:
                    seen[path] = key
                    content = file.read() or b""
                    if content and content != whole[path] and whole[path].startswith(content):
                        sys.stdout.write(f"{path} was seen half written: {len(content)} of {len(whole[path])} bytes\n")
                        sys.stdout.flush()
        except OSError:
            seen.pop(path, None)
    time.sleep(0.003)
