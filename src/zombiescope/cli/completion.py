"""A script that lets your shell complete verbs, options, values, names of signs and remedies, and paths.

Prints it; nothing is installed. The script starts no Python while you type. Names of members are written into it when
it is printed: print it again after an update, or after you added a sign of your own.
"""

from __future__ import annotations

import argparse

from zombiescope.cli._arguments import add_output

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """examples:
  zombiescope completion bash > ~/.local/share/bash-completion/completions/zombiescope
  zombiescope completion zsh > ~/.zfunc/_zombiescope        with `fpath=(~/.zfunc $fpath)` before compinit in .zshrc
  zombiescope completion fish > ~/.config/fish/completions/zombiescope.fish
  source <(zombiescope completion bash)                     for this shell only; zsh too
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="which shell it is for")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    print(script(args.shell), end="")
    return 0


def script(shell: str) -> str:
    """One of SHELLS."""
    from zombiescope.__main__ import command_parser
    from zombiescope.cli._commands import command_of
    from zombiescope.members.rooms import load

    text: str = load("cli", f"_complete_{shell}").script(command_of(command_parser()))
    return text
