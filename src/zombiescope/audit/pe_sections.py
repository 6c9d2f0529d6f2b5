"""Sections of a PE file: the command line and the release that a unified kernel image carries (systemd-stub(7)).

Of a file of a hundred megabytes only its headers and the section in question are read. It may be hostile: it is opened
only if it is a regular file of this root, and every offset and size is bounded.
"""

from __future__ import annotations

import os
import struct

from zombiescope.core import Host, Unreadable

MOST_BYTES = 1 << 16  # of one section; the kernel takes a command line of 2 to 4 KiB
_MOST_SECTIONS = 96  # as the format allows
_HEADER = 24  # bytes: "PE\0\0" and the COFF header
_SECTION = 40  # bytes of one entry of the section table


def section(host: Host, path: str, name: str) -> str:
    """The text of a section; "" if there is none of that name. Raises Unreadable for what is not a PE file."""
    handle = host.opened(path)
    try:
        begin, place = struct.unpack("<2s58xI", os.pread(handle, 64, 0))
        magic, count, optional = struct.unpack("<4s2xH12xH2x", os.pread(handle, _HEADER, place))
        if (begin, magic) != (b"MZ", b"PE\0\0"):
            raise Unreadable(path, "not a PE file")
        table = os.pread(handle, _SECTION * min(count, _MOST_SECTIONS), place + _HEADER + optional)
        for entry in range(len(table) // _SECTION):
            called, used, _, size, offset = struct.unpack_from("<8sIIII", table, entry * _SECTION)
            if called.rstrip(b"\0") == name.encode():
                text = os.pread(handle, min(used or size, size, MOST_BYTES), offset)
                return text.rstrip(b"\0\n ").decode("utf-8", "surrogateescape")
        return ""
    except struct.error:  # shorter than its headers
        raise Unreadable(path, "not a PE file") from None
    except (OSError, OverflowError) as error:
        raise Unreadable(path, str(error).lower()) from error
    finally:
        os.close(handle)
