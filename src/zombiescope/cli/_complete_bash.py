"""The completion script of bash. It starts no program, and needs nothing but bash 4.2."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from zombiescope.cli._arguments import FILE
from zombiescope.cli._commands import Argument, Command, Takes

# Words come broken at = and : (COMP_WORDBREAKS), so --format=json is three words and 05:10 too; a piece that is only
# = or : joins what stands beside it. Users may have taken them out of COMP_WORDBREAKS: then --format=json is one word.
_SCRIPT = """\
# bash completion for zombiescope, printed by: zombiescope completion bash

_zombiescope_words() {
    local word
    for word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$before$word")
    done
}

_zombiescope_files() {
    local IFS=$'\\n'
    compopt -o filenames -o default 2>/dev/null
    COMPREPLY+=($(compgen -f -P "$before" -- "$cur"))
}

_zombiescope_folders() {
    local IFS=$'\\n'
    compopt -o filenames -o dirnames 2>/dev/null
    COMPREPLY+=($(compgen -d -P "$before" -- "$cur"))
}

_zombiescope_value() {
    case "$command:$option" in
@values@
    esac
}

_zombiescope_options() {
    case "$command" in
@options@
    esac
}

_zombiescope() {
    local cur=${COMP_WORDS[COMP_CWORD]} before= command=@root@ option= takes= place=0 plain= word i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == [=:] || $word == :: ]]; then
            [[ $word == = && $option ]] && continue
            ((++i < COMP_CWORD)) || return 0
            continue
        fi
        if [[ $option && ($takes == one || $word != -*) ]]; then
            [[ $takes == some ]] || option=
            continue
        fi
        option=
        if [[ ! $plain && $word == -* ]]; then
            [[ $word == -- ]] && plain=yes
            case "$command:$word" in
@takes@
            esac
            continue
        fi
        case "$command $word" in
@commands@
                command+=" $word" place=0 ;;
            *)
                ((++place)) ;;
        esac
    done
    if [[ $option && $cur == = ]]; then
        cur=
    elif [[ $cur == --*=* && ! $plain ]]; then
        option=${cur%%=*} takes=one before=${cur%%=*}= cur=${cur#*=}
    fi
    if [[ $option && ($takes == one || $cur != -*) ]]; then
        _zombiescope_value
        return 0
    fi
    if [[ $cur == -* && ! $plain ]]; then
        _zombiescope_options
        return 0
    fi
    case "$command:$place" in
@places@
        *)
            [[ $cur ]] || _zombiescope_options ;;
    esac
    return 0
}

complete -F _zombiescope zombiescope
"""


def script(root: Command) -> str:
    every = list(root.all())
    filled = {
        "root": shlex.quote(root.name),
        "values": "\n".join(_values(every)),
        "options": "\n".join(_options(every)),
        "takes": "\n".join(_takes(every)),
        "commands": _pattern([each.name for each in every if each is not root], 12),
        "places": "\n".join(_places(every)),
    }
    text = _SCRIPT
    for key, value in filled.items():
        text = text.replace(f"@{key}@", value)
    return text


def _pattern(cases: Iterable[str], indent: int) -> str:
    return " " * indent + " | ".join(map(shlex.quote, cases)) + ")"


def _offer(argument: Argument, indent: int) -> list[str]:
    lines = [f"_zombiescope_words {shlex.join(argument.words)}"] if argument.words else []
    if argument.path:
        lines.append("_zombiescope_files" if argument.path == FILE else "_zombiescope_folders")
    return [" " * indent + line for line in lines]


def _values(every: list[Command]) -> Iterator[str]:
    for command in every:
        for option in command.options:
            if offer := _offer(option, 12):
                yield _pattern([f"{command.name}:{flag}" for flag in option.flags], 8)
                yield from (*offer, " " * 12 + ";;")


def _options(every: list[Command]) -> Iterator[str]:
    for command in every:
        flags = [flag for option in command.options for flag in option.flags]
        yield _pattern([command.name], 8)
        yield f"            _zombiescope_words {shlex.join(flags)}"
        yield "            ;;"


def _takes(every: list[Command]) -> Iterator[str]:
    for takes in (Takes.ONE, Takes.PERHAPS, Takes.SOME):
        cases = [
            f"{command.name}:{flag}"
            for command in every
            for option in command.options
            if option.takes is takes
            for flag in option.flags
        ]
        if cases:
            yield _pattern(cases, 16)
            yield f"                    option=$word takes={takes.value} ;;"


def _places(every: list[Command]) -> Iterator[str]:
    for command in every:
        if command.below:
            yield _pattern([f"{command.name}:0"], 8)
            yield f"            _zombiescope_words {shlex.join(each.words[-1] for each in command.below)}"
            yield "            ;;"
        for number, place in enumerate(command.places):
            if offer := _offer(place, 12):
                # All that follow are of the same kind, where as many may follow as there are.
                many = place.takes is Takes.SOME
                at = shlex.quote(f"{command.name}:") + ("*" if many else str(number))
                yield f"        {at})"
                yield from (*offer, " " * 12 + ";;")
