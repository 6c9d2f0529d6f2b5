"""What capture does to itself."""

from __future__ import annotations

import subprocess
import sys

GIVEN_BACK = """
import ctypes, json, mmap, re
from zombiescope.recorder import own_process
def executable():
    # RSS of pages of executable files, in KB
    with open("/proc/self/smaps") as file:
        parts = re.split(r"\\n(?=[0-9a-f]+-[0-9a-f]+ )", file.read())
    return sum(int(re.search(r"Rss: +(\\d+)", it)[1]) for it in parts if " r-xp " in it and "/" in it.split("\\n")[0])
own = open("/proc/self/exe", "rb")
patched = mmap.mmap(own.fileno(), 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
patched[:5] = b"HELLO"  # as a live patch does
address = ctypes.addressof(ctypes.c_char.from_buffer(patched))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), 8192, 5) == 0
before = executable()
own_process.give_back_text()
after = executable()
assert after < before - 1000, (before, after)
assert ctypes.string_at(address, 5) == b"HELLO", "what somebody changed is left as it is"
print(json.dumps({"still": "runs"}))
"""


def test_text_that_only_the_start_needed_is_given_back_but_not_what_was_changed() -> None:
    done = subprocess.run([sys.executable, "-c", GIVEN_BACK], capture_output=True, text=True, check=False)
    assert done.stdout == '{"still": "runs"}\n', done.stderr
