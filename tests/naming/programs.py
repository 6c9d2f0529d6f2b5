"""Real programs to be named: compiled here, run in namespaces of their own, each says where its functions are."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT

from zombiescope.naming.namer import Namer

# Loads the library whose path it is given, says where the function that it is given is, and stays.
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
  void *library = dlopen(words[1], RTLD_NOW);
  if (!library) { puts(dlerror()); return 1; }
  printf("%lx\\n", (unsigned long)dlsym(library, words[2]) + 4); fflush(stdout);
  for (;;) sleep(1);
}
"""
# Two builds of one library have different functions at one offset.
LIBRARY = """
int {name}(int n) {{ int s = {salt}; while (n--) s += n * n; return s; }}
"""
# Makes code at run time, writes a perf map for it as a JIT does, into its own /tmp by its own pid.
JIT = """
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
  char name[64];
  unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  FILE *map = count > 1 ? fopen(name, "w") : 0;
  if (map) { fprintf(map, "%lx 100 JS:*compiled app.js:1\\n", (unsigned long)code); fflush(map); }
  printf("%lx %d\\n", (unsigned long)code + 8, getpid()); fflush(stdout);
  while (getchar() != EOF) if (map) {
    fprintf(map, "%lx 100 JS:*later app.js:2\\n", (unsigned long)code + 0x200); fflush(map);
    puts("written"); fflush(stdout);
  }
}
"""


def needs_root() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip(CANNOT + "make namespaces")


def compiled(source: str, into: Path, *flags: str, language: str = "c") -> Path:
    if shutil.which("gcc") is None:
        pytest.skip(CANNOT + "compile a program: no gcc")
    into.parent.mkdir(parents=True, exist_ok=True)
    made = into.with_name(into.name + ".new")
    argv = ["gcc", "-O1", "-Wl,--build-id=sha1", *flags, "-x", language, "-", "-o", str(made), "-ldl"]
    subprocess.run(argv, input=source, text=True, check=True)
    made.rename(into)  # as a package manager does: what is mapped stays as it was
    return into


def library(name: str, into: Path, salt: int = 1) -> Path:
    return compiled(LIBRARY.format(name=name, salt=salt), into, "-shared", "-fPIC")


@contextmanager
def running(*argv: str | Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process, and the words of the first line it wrote."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()
    finally:
        for child in [*children(process.pid), process.pid]:
            os.kill(child, 9)
        process.communicate()


def children(pid: int) -> list[int]:
    return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name_at(pid: int, address: int, namer: Namer | None = None) -> str:
    """As the recorder asks: the process was in a sample, now."""
    namer = namer or Namer()
    namer.feed([])
    namer.see([pid], time.monotonic_ns())
    return namer.user(pid, address, time.monotonic_ns())[0]
