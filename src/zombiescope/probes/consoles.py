"""Where the kernel prints its log: the consoles, how fast a serial one is, and up to which level it is printed.

Overhead: three reads of a few hundred bytes, once a minute.
Kernel: /proc/consoles (fs/proc/consoles.c), flag E for an enabled one; kernel.printk, the first number: lines of a
    lower level are printed. A serial console has the speed of the boot parameter console=ttyS0,115200, and 9600 without
    one (drivers/tty/serial/8250/8250_port.c, serial8250_console_setup); ten bits are sent for a byte. Firmware may have
    set another speed, which nothing tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable
from zombiescope.kernel.text import lines, only_count

EVERY = 60.0
SPEED, LEVEL = "console_bytes_per_second", "console_level"
GIVES = (SPEED, LEVEL)
_CONSOLES, _PRINTK, _CMDLINE = "/proc/consoles", "/proc/sys/kernel/printk", "/proc/cmdline"
_SERIAL = re.compile(r"tty(?:S|AMA|USB|LP|MXS|PS)\d{1,3}")
_SPEED = re.compile(r"(\d{1,7})[noe]?\d?r?", re.ASCII)
DEFAULT = 9_600  # bits a second
BITS = 10  # for a byte: one to start, eight, one to stop


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    names, parameters = parse(host.read(_CONSOLES)), host.read(_CMDLINE)
    for name in names:
        speed = _speed(name, parameters) / BITS
        yield Reading(what=SPEED, subject=f"console:{name}", value=speed, at=at, source=_CMDLINE, text=name)
    level = only_count((host.read(_PRINTK).split() or [""])[0], _PRINTK)
    yield Reading(what=LEVEL, subject="node", value=level, at=at, source=_PRINTK, text=" ".join(names))


# ttyS0                -W- (EC  p a)    4:64
# tty0                 -WU (EC  p  )    4:1
def parse(text: str) -> list[str]:
    """Serial consoles that are enabled; a screen is fast enough."""
    found = []
    for number, line in enumerate(lines(text), 1):
        name, _, rest = line.partition(" ")
        flags = rest.partition("(")[2].partition(")")[0]
        if not flags:
            raise Unparsable(_CONSOLES, number, line)
        if "E" in flags and _SERIAL.fullmatch(name):
            found.append(name)
    return found


def _speed(name: str, parameters: str) -> int:
    """Bits a second, as the boot parameter says."""
    for word in reversed(parameters.split()):
        key, _, value = word.partition("=")
        device, _, options = value.partition(",")
        if key == "console" and device == name:
            found = _SPEED.fullmatch(options)
            return max(int(found[1]), 1) if found else DEFAULT
    return DEFAULT
