"""The types in C++ symbols, as far as names need them: they are the arguments of templates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from zombiescope.naming import cplusplus_words as words
from zombiescope.naming.mangled import Mangled, Odd, short

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Part(NamedTuple):
    """A type or a name. A type is written around what has it: `void (*` f `)(int)`."""

    left: str
    right: str = ""
    kind: str = ""  # "function", "nested" (which returns a function) or "array": a pointer to it needs brackets
    last: str = ""  # what a constructor of it is called
    template: bool = False  # its last part has arguments
    pack: tuple[Part, ...] | None = None

    def __str__(self) -> str:
        if self.pack is not None:
            return listed(self.pack)
        return f"{self.left} {self.right}" if self.kind == "function" else self.left + self.right


class Signature(NamedTuple):
    """What comes after a function's name: its qualifiers, and whether the parameters begin with what it returns."""

    qualifiers: str = ""
    returns: bool = False


def listed(parts: tuple[Part, ...]) -> str:
    return short(", ".join(filter(None, map(str, parts))))


def _pointer(to: Part, mark: str) -> Part:
    if to.kind:
        return Part(f"{to.left}{'' if to.kind == 'nested' else ' '}({mark}", f"){to.right}")
    if mark[0] == "&" and to.left[-1:] == "&":  # a reference to a reference is one
        return Part(to.left.rstrip("&") + ("&&" if mark == "&&" and to.left.endswith("&&") else "&"), to.right)
    return Part(to.left + mark, to.right)


class Types(Mangled, ABC):
    """Reads types; names are in cplusplus.py."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text, at)
        self.known: list[Part] = []  # what S_, S0_ … stand for
        self.arguments: tuple[Part, ...] = ()  # what T_, T0_ … stand for
        self.signature = Signature()  # of the last name
        self.last = ""  # the class, for a constructor
        self.in_lambda = False
        self._element = -1  # of the packs that are expanded
        self._elements = -1  # how many a pack has that was met

    @abstractmethod
    def name(self) -> Part: ...

    @abstractmethod
    def encoding(self, *, parameters: bool = True) -> str: ...

    def parameters(self) -> str:
        """Types in brackets, up to an E or the end."""
        parts: list[Part] = []
        while self.peek() not in ("", "E", "."):
            if self.text[self.at] in "RO" and self.text[self.at + 1 : self.at + 2] == "E":  # of the function: f() &
                break
            parts.append(self.type())
        shown = listed(tuple(parts))
        return "()" if shown == "void" else f"({shown})"

    def qualifiers(self) -> str:
        found = ""
        while (letter := self.peek()) in words.QUALIFIERS:
            self.at += 1
            found = words.QUALIFIERS[letter] + found  # the innermost is the last
        return found

    def type(self) -> Part:
        """Any type; one that is not built in can be referred to later."""
        for code in (self.peek(), self.text[self.at : self.at + 2]):
            if code in words.BUILTIN:
                self.at += len(code)
                return Part(words.BUILTIN[code])
        self.begin()
        held = self.arguments, self.last, self.signature
        found, fresh = self._compound(code)
        short(found.left + found.right)
        if fresh:
            self.known.append(found)
        self.arguments, self.last, self.signature = held
        self.end()
        return found

    def _compound(self, code: str) -> tuple[Part, bool]:
        """A type that is made of others; and whether it is new."""
        letter = code[:1]
        if letter in words.QUALIFIERS:
            return self._qualified(), True
        if letter in words.POINTERS:
            self.at += 1
            return _pointer(self.type(), words.POINTERS[letter]), True
        if letter == "F" or code == "Do":
            return self._function(), True
        if letter == "A":
            return self._array(), True
        if letter == "M":
            self.at += 1
            owner, member = str(self.type()), self.type()
            mark = f"{owner}::*"
            return (_pointer(member, mark) if member.kind else Part(f"{member.left} {mark}", member.right)), True
        if letter == "T":
            found = self._parameter()
            if self.peek() == "I":
                self.known.append(found)
                found = self.with_arguments(found)
            return found, True
        if letter == "S" and code != "St":
            found = self.substituted()
            return (self.with_arguments(found), True) if self.peek() == "I" else (found, False)
        if letter in ("C", "G", "U", "u") or code in ("Dp", "Dv"):
            return self._rare(code), True
        if letter in ("N", "Z") or letter.isdigit() or code == "St":
            return self.name(), True
        raise Odd

    def _qualified(self) -> Part:
        added = self.qualifiers()
        if self.peek() == "F":
            found = self._function()
            return found._replace(right=found.right + added)
        found = self.type()
        if found.kind == "array":
            return found._replace(left=found.left + added)
        return found._replace(left=found.left + added, pack=None) if not found.right else _pointer(found, added)

    def _function(self) -> Part:
        noexcept = " noexcept" if self.take("Do") else ""
        self.expect("F")
        self.take("Y")
        returned = self.type()
        right = self.parameters()
        if self.peek() in ("R", "O"):
            right += " " + words.POINTERS[self.text[self.at]]
            self.at += 1
        self.expect("E")
        return Part(returned.left, right + noexcept + returned.right, "nested" if returned.right else "function")

    def _array(self) -> Part:
        self.expect("A")
        size = "" if self.peek() == "_" else str(self.number())
        self.expect("_")
        of = self.type()
        return Part(of.left, f" [{size}]" + of.right.lstrip(), "array")

    def _rare(self, code: str) -> Part:
        if code == "Dp":
            return self._expanded()
        if self.take("Dv"):
            size = self.number()
            self.expect("_")
            return Part(f"{self.type()} __vector({size})")
        self.at += 1
        if code[0] == "u":
            return Part(self.counted())
        if code[0] == "U":
            name = self.counted()
            return Part(f"{self.type()} {name}")
        return Part(f"{self.type()} {'_Complex' if code[0] == 'C' else '_Imaginary'}")

    def _expanded(self) -> Part:
        """A pattern with a pack in it is read once for each element of the pack."""
        self.expect("Dp")
        start, known, held = self.at, len(self.known), (self._element, self._elements)
        self._element, self._elements = 0, -1
        parts = [self.type()]
        count, learnt = self._elements, self.known[known:]
        for self._element in range(1, count):
            self.at = start
            del self.known[known:]
            parts.append(self.type())
        self.known[known:] = learnt
        self._element, self._elements = held
        return Part("", pack=tuple(parts) if count else ())

    def _parameter(self) -> Part:
        self.expect("T")
        place = 0 if self.peek() == "_" else 1 + self.number(_LETTERS)
        self.expect("_")
        if self.in_lambda:
            return Part(f"auto:{place + 1}")
        if place >= len(self.arguments):
            raise Odd
        found = self.arguments[place]
        if found.pack is None or self._element < 0:
            return found
        self._elements = len(found.pack)
        return found.pack[self._element] if self._element < len(found.pack) else Part("")

    def substituted(self) -> Part:
        """What was seen before: S_, S0_ …, or one of the library's own: Sa, Ss …"""
        self.expect("S")
        letter = self.peek()
        if letter in words.STANDARD:
            self.at += 1
            name, last = words.STANDARD[letter]
            return Part(name, last=last)
        place = 0 if letter == "_" else 1 + self.number(_LETTERS)
        self.expect("_")
        if place >= len(self.known):
            raise Odd
        return self.known[place]

    def with_arguments(self, template: Part) -> Part:
        """The name of a template, and the arguments that follow it."""
        self.arguments = self._template_arguments()
        shown = listed(self.arguments)
        before = " " if template.left[-1:] == "<" else ""
        after = " " if shown[-1:] == ">" else ""
        return Part(short(f"{template.left}{before}<{shown}{after}>"), last=template.last, template=True)

    def _template_arguments(self) -> tuple[Part, ...]:
        self.expect("I")
        held, found = (self.last, self.signature, self.in_lambda), list[Part]()
        while not self.take("E"):
            found.append(self._argument())
        self.last, self.signature, self.in_lambda = held
        return tuple(found)

    def _argument(self) -> Part:
        if self.take("J"):
            found = list[Part]()
            while not self.take("E"):
                found.append(self._argument())
            return Part("", pack=tuple(found))
        if self.take("X"):
            part = self._expression()
            self.expect("E")
            return part
        return self._literal() if self.peek() == "L" else self.type()

    def _expression(self) -> Part:
        if self.peek() == "L":
            return self._literal()
        if self.peek() == "T":
            return self.type()
        if self.take("adL_Z"):
            name = self.encoding(parameters=False)
            self.expect("E")
            return Part(f"&{name}")
        raise Odd

    def _literal(self) -> Part:
        self.expect("L")
        if self.take("_Z"):
            name = self.encoding()
            self.expect("E")
            return Part(name)
        of = str(self.type())
        end = self.text.find("E", self.at)
        if end < 0:
            raise Odd
        raw, self.at = self.text[self.at : end], end + 1
        value = f"-{raw[1:]}" if raw[:1] == "n" else raw
        if of == "bool" and raw in ("0", "1"):
            return Part("true" if raw == "1" else "false")
        if of in ("float", "double", "long double"):
            return Part(f"({of})[{raw}]")
        return Part(value + words.INTEGERS[of] if of in words.INTEGERS else f"({of}){value}")
