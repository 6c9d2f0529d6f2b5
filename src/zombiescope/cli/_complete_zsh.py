"""The completion script of zsh, for `_arguments`. It starts no program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.cli._arguments import FILE
from zombiescope.cli._commands import Argument, Command, Takes

# It is loaded in two ways: as a file of fpath, which zsh runs as the function itself, and by `source`.
_HEAD = """\
#compdef zombiescope
# zsh completion for zombiescope, printed by: zombiescope completion zsh
"""
_TAIL = """
if [[ $funcstack[1] == _zombiescope ]]; then
    _zombiescope "$@"
else
    compdef _zombiescope zombiescope
fi
"""


def script(root: Command) -> str:
    return _HEAD + "".join(f"\n{_function(each)}" for each in reversed(list(root.all()))) + _TAIL


def _function(command: Command) -> str:
    lines = [f"{_named(command)}() {{"]
    specs = [*_options(command), *_places(command)]
    if not command.below:
        lines += ["    _arguments -s -S : \\", *(f"        {it} \\" for it in specs)]
        return "\n".join(lines).removesuffix(" \\") + "\n}\n"
    lines += [
        '    local curcontext="$curcontext" state line ret=1',
        "    _arguments -C -S : \\",
        *(f"        {it} \\" for it in specs),
        "        '1: :->below' '*:: :->rest' && ret=0",
        "    case $state in",
        "        (below)",
        "            local -a below",
        "            below=(",
        *(f"                {_quoted(_escaped(it.words[-1]) + ':' + it.summary)}" for it in command.below),
        "            )",
        f"            _describe -t commands {_quoted(command.name + ' command')} below && ret=0 ;;",
        "        (rest)",
        f'            curcontext="${{curcontext%:*}}:{"-".join(command.words)}-$line[1]:"',
        "            case $line[1] in",
        *(f"                ({_quoted(it.words[-1])}) {_named(it)} && ret=0 ;;" for it in command.below),
        "            esac ;;",
        "    esac",
        "    return ret",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _named(command: Command) -> str:
    return "_" + re.sub(r"\W", "_", "_".join(command.words))


def _options(command: Command) -> Iterator[str]:
    for option in command.options:
        also = "(- *)" if {"--help", "--version"} & set(option.flags) else f"({' '.join(option.flags)})"
        for flag in option.flags:
            joined = "=" if flag.startswith("--") and option.takes in (Takes.ONE, Takes.PERHAPS) else ""
            spec = f"{'*' if option.repeats else also}{flag}{joined}[{_escaped(option.says)}]"
            yield _quoted(spec + _value(option, {Takes.PERHAPS: "::", Takes.SOME: ":*-*:"}.get(option.takes, ":")))


def _places(command: Command) -> Iterator[str]:
    for number, place in enumerate(command.places, 1):
        at = "*" if place.takes is Takes.SOME else str(number)
        yield _quoted(at + _value(place, "::" if place.takes is Takes.PERHAPS else ":"))


def _value(argument: Argument, colons: str) -> str:
    if argument.takes is Takes.NONE:
        return ""
    return f"{colons}{_escaped(argument.metavar)}:{_action(argument)}"


def _action(argument: Argument) -> str:
    words = " ".join(re.sub(r"([^\w./,=+-])", r"\\\1", it) for it in argument.words)
    files = "" if not argument.path else "_files" if argument.path == FILE else "_files -/"
    if words and files:
        return f"_alternative {_quoted(f'words:{argument.metavar}:({words})')} {_quoted(f'files:path:{files}')}"
    return f"({words})" if words else files or " "


def _escaped(text: str) -> str:
    """For a description within a spec, where colons and brackets have a meaning."""
    return re.sub(r"([\\:\[\]])", r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
