"""Rust symbols into names: `_ZN4core3fmt5write17h0123456789abcdefE` and `_RNvNtC4core3fmt5write` are core::fmt::write.

The grammar of the second kind: https://doc.rust-lang.org/rustc/symbol-mangling/v0.html. Hashes are left out: they tell
two builds of a crate from each other, which nobody reads in a profile. What is not understood is Odd.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from zombiescope.naming.mangled import Mangled, Odd, short, table

LEGACY = re.compile(r"_ZN(.+)17h[0-9a-f]{16}E(?:\.[\w.]*)?", re.ASCII)
_ESCAPED = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_ESCAPE = re.compile(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u[0-9a-f]{1,6})\$|\.\.")
_BASIC = table(
    """
    a i8; b bool; c char; d f64; e str; f f32; h u8; i isize; j usize; l i32; m u32; n i128; o u128; p _; s i16;
    t u16; u (); v ...; x i64; y u64; z !
    """
)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ELIDED = "'_"
_HEXADECIMAL = "0123456789abcdef"


def legacy(path: str) -> str:
    """The older kind, which looks like C++: `path` is what is between _ZN and the hash."""
    reader, parts = Mangled(path, 0), []
    while reader.peek():
        part = reader.counted()
        parts.append(_ESCAPE.sub(_unescaped, part.removeprefix("_") if part.startswith("_$") else part))
    return "::".join(parts)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code is None:
        return "::"
    if code in _ESCAPED:
        return _ESCAPED[code]
    character = chr(min(int(code[1:], 16), 0x10FFFF))
    return character if character.isprintable() else found[0]


def v0(symbol: str) -> str:
    """The newer kind, which begins with _R. A suffix (.llvm.123, .cold) is left out."""
    reader = _Symbol(symbol, 2)
    if reader.peek().isdigit():  # a later version of the grammar
        raise Odd
    return reader.path(in_value=True)


class _Symbol(Mangled):
    def __init__(self, text: str, at: int) -> None:
        super().__init__(text, at)
        self._bound = 0  # lifetimes of all binders around
        self._known: dict[tuple[int, str, int], str] = {}

    def path(self, *, in_value: bool) -> str:
        """`in_value`: of a function, where arguments of types are written after a second ::."""
        self.begin()
        found = short(self._path(in_value))
        self.end()
        return found

    def _path(self, in_value: bool) -> str:
        kind = self.peek()
        if kind == "B":
            return self._again(f"path {in_value}", lambda: self._path(in_value))
        self.at += 1
        if kind == "C":
            return self._identifier()[0]
        if kind in ("M", "X", "Y"):
            if kind != "Y":
                self._disambiguator()
                self.path(in_value=False)  # where the impl is
            of = self.type()
            return f"<{of}>" if kind == "M" else f"<{of} as {self.path(in_value=False)}>"
        if kind == "N":
            space = self.peek()
            self.at += 1
            around = self.path(in_value=in_value)
            name, number = self._identifier()
            if not space.isupper():
                return f"{around}::{name}" if name else around
            called = {"C": "closure", "S": "shim"}.get(space, space)
            return f"{around}::{{{called}{':' if name else ''}{name}#{number}}}"
        if kind == "I":
            around = self.path(in_value=in_value)
            return f"{around}{'::' if in_value else ''}<{self._listed(self._argument)}>"
        raise Odd

    def _identifier(self) -> tuple[str, int]:
        number = self._disambiguator()
        odd = self.take("u")
        length = 0 if self.take("0") else self.number()
        self.take("_")
        if length > len(self.text) - self.at:
            raise Odd
        self.at += length
        name = self.text[self.at - length : self.at]
        return (_punycode(name) if odd else name), number

    def _disambiguator(self) -> int:
        return 1 + self._base62() if self.take("s") else 0

    def _base62(self) -> int:
        value = 0 if self.peek() == "_" else 1 + self.number(_DIGITS)
        self.expect("_")
        return value

    def _again(self, kind: str, read: Callable[[], str]) -> str:
        """B and where it was before, counted from behind the _R. Each is read once."""
        start = self.at
        self.expect("B")
        place = 2 + self._base62()
        if place >= start:
            raise Odd
        key = (place, kind, self._bound)
        if key not in self._known:
            here, self.at = self.at, place
            self.begin()
            self._known[key] = short(read())
            self.end()
            self.at = here
        return self._known[key]

    def _listed(self, read: Callable[[], str], between: str = ", ") -> str:
        found = ""
        while not self.take("E"):
            found = short(found + between + read() if found else read())
        return found

    def _argument(self) -> str:
        if self.take("L"):
            return self._lifetime()
        return self.constant() if self.take("K") else self.type()

    def _lifetime(self) -> str:
        place = self._base62()
        if not place:
            return _ELIDED
        depth = self._bound - place
        if depth < 0:
            raise Odd
        return f"'{chr(97 + depth)}" if depth < 26 else f"'_{depth}"

    def _binder(self) -> str:
        if not self.take("G"):
            return ""
        count = 1 + self._base62()
        if count > 64:
            raise Odd
        first = self._bound
        self._bound += count
        names = (f"'{chr(97 + it)}" if it < 26 else f"'_{it}" for it in range(first, self._bound))
        return f"for<{', '.join(names)}> "

    def type(self) -> str:
        self.begin()
        found = short(self._type())
        self.end()
        return found

    def _type(self) -> str:
        kind = self.peek()
        if kind in _BASIC and kind:
            self.at += 1
            return _BASIC[kind]
        if kind == "B":
            return self._again("type", self._type)
        if kind in ("C", "M", "X", "Y", "N", "I"):
            return self.path(in_value=False)
        self.at += 1
        if kind in ("R", "Q"):
            lifetime = self._lifetime() if self.take("L") else _ELIDED
            shown = "" if lifetime == _ELIDED else f"{lifetime} "
            return f"&{shown}{'mut ' if kind == 'Q' else ''}{self.type()}"
        if kind in ("P", "O"):
            return f"*{'const' if kind == 'P' else 'mut'} {self.type()}"
        if kind == "A":
            return f"[{self.type()}; {self.constant()}]"
        if kind == "S":
            return f"[{self.type()}]"
        if kind == "T":
            first = "" if self.peek() == "E" else self.type()
            rest = self._listed(self.type)
            return f"({first}, {rest})" if rest else f"({first}{',' if first else ''})"
        if kind == "F":
            return self._function()
        if kind == "D":
            return self._dynamic()
        raise Odd

    def _function(self) -> str:
        bound = self._bound
        text = self._binder()
        text += "unsafe " if self.take("U") else ""
        if self.take("K"):
            abi = "C" if self.take("C") else self._identifier()[0].replace("_", "-")
            text += f'extern "{abi}" '
        text += f"fn({self._listed(self.type)})"
        returned = "" if self.take("u") else f" -> {self.type()}"
        self._bound = bound
        return text + returned

    def _dynamic(self) -> str:
        bound = self._bound
        text = f"dyn {self._binder()}{self._listed(self._trait, ' + ')}"
        self._bound = bound
        self.expect("L")
        lifetime = self._lifetime()
        return text if lifetime == _ELIDED else f"{text} + {lifetime}"

    def _trait(self) -> str:
        """A trait, with what is said of its types: Iterator<Item = u8>."""
        path = self.path(in_value=False)
        if self.peek() != "p":
            return path
        found = f"{path[:-1]}, " if path.endswith(">") else f"{path}<"
        while self.take("p"):
            name, _ = self._identifier()
            found = short(f"{found}{name} = {self.type()}{', ' if self.peek() == 'p' else '>'}")
        return found

    def constant(self) -> str:
        """An argument that is a value: a number, a bool, a character; any other is Odd."""
        if self.peek() == "B":
            return self._again("constant", self.constant)
        kind = self.peek()
        self.at += 1
        if kind == "p":
            return "_"
        if kind not in _BASIC:
            raise Odd
        sign = "-" if self.take("n") else ""
        value = 0 if self.peek() == "_" else self.number(_HEXADECIMAL)
        self.expect("_")
        if kind == "b":
            return "true" if value else "false"
        if kind == "c":
            return repr(chr(min(value, 0x10FFFF)))
        if kind in "defpuvz":
            raise Odd
        return f"{sign}{value}"


def _punycode(name: str) -> str:
    plain, _, rest = name.rpartition("_")
    try:
        found = (
            f"{plain}-{rest}".encode("ascii").decode("punycode") if plain else rest.encode("ascii").decode("punycode")
        )
    except (UnicodeError, ValueError, OverflowError):
        raise Odd from None
    return found if found.isprintable() else name
