"""Thaw a file system, as a separate command, if what is mounted at a place is still the device that is meant.

    python -m zombiescope.treatment.thaw_command MAJOR:MINOR PLACE

The device is compared by the kernel's table of mounts, not by st_dev: btrfs gives each of its folders another one.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import sys

from zombiescope.core import Unreadable, harmless

FITHAW = 0xC0045878  # include/uapi/linux/fs.h: _IOWR('X', 120, int)
_MOUNT_ID = re.compile(r"^mnt_id:\t(\d+)$", re.MULTILINE)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="thaw_command", description=__doc__)
    parser.add_argument("device", metavar="MAJOR:MINOR")
    parser.add_argument("place")
    args = parser.parse_args(argv)
    try:
        thaw(args.device, args.place)
    except (OSError, Unreadable) as error:
        print(harmless(str(error)), file=sys.stderr)
        return 1
    print(harmless(f"thawed {args.place}, device {args.device}"))
    return 0


def thaw(device: str, place: str) -> None:
    """The folder is held while it is compared: nothing can be mounted over it in between."""
    held = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if (there := device_of(held)) != device:
            raise Unreadable(place, f"device {there or 'unknown'} is mounted there, not {device}: left alone")
        folder = os.open(f"/proc/self/fd/{held}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(folder, FITHAW, 0)
        finally:
            os.close(folder)
    finally:
        os.close(held)


def device_of(handle: int) -> str:
    """Of the file system that an open file is on: "8:16"; empty where the kernel's table does not have it."""
    with open(f"/proc/self/fdinfo/{handle}") as file:
        number = _MOUNT_ID.search(file.read())
    with open("/proc/self/mountinfo", errors="surrogateescape") as file:
        rows = (line.split(" ", 3) for line in file)
        return next((row[2] for row in rows if number is not None and row[0] == number[1]), "")


if __name__ == "__main__":
    sys.exit(main())
