"""The completion script of fish. It starts no program but fish's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.cli._arguments import FILE, FOLDER
from zombiescope.cli._commands import Argument, Command, Takes

_SCRIPT = """\
# fish completion for zombiescope, printed by: zombiescope completion fish

# Whether the words so far are those of a command: __zombiescope_at 'zombiescope lab run' [PLACE [PLACE …]]
function __zombiescope_at
    set -l command @root@
    set -l place 0
    set -l takes ''
    for word in (commandline -opc)[2..-1]
        if test -n "$takes"
            if test $takes = one; or not string match -q -- '-*' $word
                test $takes = some; or set takes ''
                continue
            end
        end
        set takes ''
        if string match -q -- '-*' $word
            switch "$command:$word"
@takes@
            end
            continue
        end
        switch "$command $word"
            case @commands@
                set command "$command $word"
                set place 0
            case '*'
                set place (math $place + 1)
        end
    end
    test "$command" = "$argv[1]"; or return 1
    test (count $argv) -eq 1; and return 0
    contains -- $place $argv[2..-1]
    or contains -- any $argv[2..-1]
end

complete -c zombiescope -f
"""


def script(root: Command) -> str:
    every = list(root.all())
    text = _SCRIPT.replace("@root@", _quoted(root.name))
    text = text.replace("@commands@", " ".join(_quoted(each.name) for each in every if each is not root))
    text = text.replace("@takes@", "\n".join(_takes(every)))
    return text + "".join(f"{line}\n" for command in every for line in _lines(command))


def _takes(every: list[Command]) -> Iterator[str]:
    for takes in (Takes.ONE, Takes.PERHAPS, Takes.SOME):
        cases = [
            _quoted(f"{command.name}:{flag}")
            for command in every
            for option in command.options
            if option.takes is takes
            for flag in option.flags
        ]
        if cases:
            yield f"                case {' '.join(cases)}"
            yield f"                    set takes {takes.value}"


def _lines(command: Command) -> Iterator[str]:
    for each in command.below:
        yield _complete(command, f"-a {_quoted(each.words[-1])} -d {_quoted(each.summary)}", "0")
    for number, place in enumerate(command.places):
        at = "any" if place.takes is Takes.SOME else str(number)
        if offer := _offer(place):
            yield _complete(command, f"{offer} -d {_quoted(place.metavar)}", at)
    for option in command.options:
        flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
        value = ""
        if option.takes is not Takes.NONE:
            value = f" {_offer(option)}" if option.takes is Takes.PERHAPS else f" -r {_offer(option) or '-f'}"
        yield _complete(command, f"{' '.join(flags)}{value.rstrip()} -d {_quoted(option.says)}")


def _complete(command: Command, what: str, place: str = "") -> str:
    asked = _quoted(f"__zombiescope_at {_quoted(command.name)}{f' {place}' if place else ''}")
    return f"complete -c zombiescope -n {asked} {what}"


def _offer(argument: Argument) -> str:
    parts = []
    if argument.path != FILE and (argument.words or argument.path):
        parts.append("-f")
    # fish expands what it offers: a word that is more than letters is quoted once more.
    words = [it if re.fullmatch(r"[\w.,+-]+", it) else _quoted(it) for it in argument.words]
    if argument.path == FOLDER:
        words.append("(__fish_complete_directories)")
    if words:
        parts.append(f"-a {_quoted(' '.join(words))}")
    if argument.path == FILE:
        parts.append("-F")
    return " ".join(parts)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
