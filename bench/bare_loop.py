"""The floor that drift repair is measured against: bare asyncio, one inotify descriptor, the same repair.

bare_loop.py DIRECTORY...: reads the files there, then restores any that changes: read, compare, temporary, rename.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys

IN_CLOSE_WRITE, IN_MOVED_TO, IN_DELETE = 0x8, 0x80, 0x200


async def main(directories: list[str]) -> None:
    """Watch and restore until killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    folders: dict[int, str] = {}
    wanted: dict[str, bytes] = {}
    for folder in directories:
        folders[libc.inotify_add_watch(descriptor, folder.encode(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE)] = folder
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as file:
                wanted[f"{folder}/{name}"] = file.read()

    def restore(path: str) -> None:
        content = wanted.get(path)
        if content is None:
            return
        try:
            with open(path, "rb") as file:
                if file.read() == content:
                    return
        except FileNotFoundError:
            pass
        temporary = f"{path}.tmp"
        with open(temporary, "wb") as file:
            file.write(content)
        os.rename(temporary, path)

    def readable() -> None:
        data, at = os.read(descriptor, 65536), 0
        while at < len(data):
            watch, _, _, length = struct.unpack_from("iIII", data, at)
            name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            at += 16 + length
            restore(f"{folders[watch]}/{name}")

    asyncio.get_running_loop().add_reader(descriptor, readable)
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1:]))
