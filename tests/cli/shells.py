"""Real shells on a real terminal, with TAB pressed: what would they offer?"""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tests.waiting import HANGS

# Both spies write what was offered, and then make a file that says it is complete.
_BASH = r"""
PS1= PROMPT_COMMAND=
bind 'set bell-style none' 'set completion-query-items 0' 'set page-completions off' 'set enable-bracketed-paste off'
source SCRIPT
spy() { _zombiescope "$@"; printf '%s\n' "${COMPREPLY[@]}" > OUT; : > OUT.done; }
complete -F spy zombiescope
: > OUT.done
"""
_ZSH = r"""
PS1= LISTMAX=10000
unsetopt automenu beep zle_bracketed_paste 2>/dev/null
autoload -Uz compinit && compinit -D -u
source SCRIPT
compadd() {
    if [[ ${@[1,(i)(-|--)]} != *-[a-zA-Z]#[OAD]* ]]; then
        local -a spied
        builtin compadd -O spied "$@"
        print -rl -- $spied >> OUT
    fi
    builtin compadd "$@"
}
spied() { : > OUT.done; }
pressed() { comppostfuncs=(spied); : >> OUT; zle expand-or-complete; }
zle -N pressed && bindkey '^I' pressed
setopt extendedglob
: > OUT.done
"""
PATIENCE = HANGS


class Shell(Protocol):
    def offers(self, line: str) -> list[str]:
        """What TAB offers after this line."""


class OnTerminal:
    """bash or zsh, which complete only for a terminal."""

    def __init__(self, terminal: int, out: Path) -> None:
        self.terminal, self.out, self.done = terminal, out, out.with_name(f"{out.name}.done")

    def offers(self, line: str) -> list[str]:
        self.out.unlink(missing_ok=True)
        os.write(self.terminal, line.encode() + b"\t")
        self.wait()
        os.write(self.terminal, b"\x15")  # Ctrl-U: an empty line again
        return sorted({it.strip() for it in self.out.read_text().splitlines() if it.strip()})

    def wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self.done.exists():
            assert time.monotonic() < until, "the shell did not answer"
            time.sleep(0.005)
        self.done.unlink()


class Fish:
    def __init__(self, script: Path, folder: Path) -> None:
        self.script, self.folder = script, folder

    def offers(self, line: str) -> list[str]:
        asked = ["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', str(self.script), line]
        env = {**os.environ, "HOME": str(self.script.parent)}
        done = subprocess.run(asked, cwd=self.folder, env=env, capture_output=True, text=True, check=True)
        assert not done.stderr
        return sorted({it.split("\t")[0] for it in done.stdout.splitlines()})


@contextmanager
def shell(name: str, script: str, own: Path, folder: Path) -> Iterator[Shell]:
    """A shell in `folder` that has read the script; its own files are in `own`."""
    file = own / f"script.{name}"
    file.write_text(script)
    if name == "fish":
        yield Fish(file, folder)
        return
    out = own / "offered"
    begin = own / "begin"
    begin.write_text((_BASH if name == "bash" else _ZSH).replace("SCRIPT", str(file)).replace("OUT", str(out)))
    flags = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}[name]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(shutil.which(name) or name, [name, *flags], {**os.environ, "HOME": str(own), "TERM": "xterm"})
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 2000, 200, 0, 0))
        threading.Thread(target=_drain, args=(terminal,), daemon=True).start()
        os.write(terminal, f"source {begin}\n".encode())
        found = OnTerminal(terminal, out)
        found.wait()
        yield found
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _drain(terminal: int) -> None:
    """What the shell draws; it would wait for somebody to read it."""
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass
