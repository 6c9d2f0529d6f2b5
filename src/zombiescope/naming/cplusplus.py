"""C++ symbols (`_ZN3foo3barEi`) into names as perf shows them, without parameters: foo::bar.

Spelled as `c++filt -p` does. What is not understood is Odd, and the caller keeps the symbol as it is: above all
expressions other than literals, which one symbol in a thousand has.
"""

from __future__ import annotations

import re

from zombiescope.naming import cplusplus_words as words
from zombiescope.naming.cplusplus_types import Part, Signature, Types
from zombiescope.naming.mangled import Odd, short

ANONYMOUS = "(anonymous namespace)"
_NESTED = re.compile("_ZN(?:r?V?K?[RO]?)(?=[1-9])")
_LENGTH = re.compile("[1-9][0-9]{0,5}")
_MADE = re.compile("[CD][0-9]")


def cplusplus(symbol: str) -> str:
    """The name of a function by its symbol, which begins with _Z. Pieces of it (.cold, .part.0) have its name."""
    if plain := _plain(symbol):
        return plain
    reader = _Symbol(symbol, 2)
    name = reader.special() or reader.name().left
    if symbol[reader.at : reader.at + 1] == "E":  # more ends than beginnings
        raise Odd
    return name


def _plain(symbol: str) -> str:
    """Names within names and nothing else, as most are: no templates, no operators. "" for all others."""
    nested = _NESTED.match(symbol)
    at, parts = nested.end() if nested else 2, list[str]()
    while (digits := _LENGTH.match(symbol, at)) and (nested or not parts):
        begin, at = digits.end(), digits.end() + int(digits[0])
        part = symbol[begin:at]
        if at > len(symbol):
            return ""
        parts.append(ANONYMOUS if part.startswith("_GLOBAL__N") else part)
    if not nested:
        return parts[0] if parts and symbol[at : at + 1] not in ("I", "B", "E") else ""
    made = _MADE.match(symbol, at)
    if made and parts:
        at += 2
        parts.append(("~" if made[0][0] == "D" else "") + parts[-1])
    return "::".join(parts) if parts and symbol[at : at + 1] == "E" and symbol[at + 1 : at + 2] != "E" else ""


class _Symbol(Types):
    def special(self) -> str:
        """What is no function of the program itself: tables, thunks; "" for none."""
        code = self.text[self.at : self.at + 2]
        if (
            code not in ("Th", "Tv", "Tc", "TC", "GT")
            and code not in words.ABOUT_TYPES
            and code not in words.ABOUT_NAMES
        ):
            return ""
        self.at += 2
        if code in words.ABOUT_TYPES:
            return words.ABOUT_TYPES[code] + str(self.type())
        if code in words.ABOUT_NAMES:
            return words.ABOUT_NAMES[code] + self.name().left
        if code == "TC":
            of = self.type()
            self.number()
            self.expect("_")
            return f"construction vtable for {self.type()}-in-{of}"
        if code == "GT":
            self.at += 1
            return "transaction clone for " + self.encoding()
        self.at -= code != "Tc"
        for _ in range(1 + (code == "Tc")):
            virtual = self.take("v")
            if not virtual:
                self.expect("h")
            for _ in range(1 + virtual):
                self.take("n")
                self.number()
                self.expect("_")
        kinds = {"Th": "non-virtual", "Tv": "virtual", "Tc": "covariant return"}
        return f"{kinds[code]} thunk to {self.encoding()}"

    def encoding(self, *, parameters: bool = True) -> str:
        """A function with its parameters, which can be left out, up to an E or the end."""
        self.begin()
        name = self.special() or self.name().left
        signature, arguments = self.signature, self.arguments
        if self.peek() not in ("", "E", "."):
            if signature.returns:
                self.type()
            shown = self.parameters() + signature.qualifiers
            name = short(name + shown) if parameters else name
        self.arguments = arguments
        self.end()
        return name

    def name(self) -> Part:
        """Any name, with the arguments of its templates."""
        self.begin()
        self.signature = Signature()
        start = self.peek()
        if start == "N":
            found = self._nested()
        elif start == "Z":
            found = self._local()
        else:
            if start == "S" and not self.text.startswith("St", self.at):
                found = self.substituted()
                returns = True
            else:
                around = "std::" if self.take("St") else ""
                plain, returns = self._unqualified()
                found = Part(around + plain, last=self.last)
                if self.peek() == "I":
                    self.known.append(found)
            if self.peek() == "I":
                found = self.with_arguments(found)
                self.signature = Signature("", returns)
        self.end()
        return found

    def _nested(self) -> Part:
        self.expect("N")
        qualifiers, found, returns = self.qualifiers(), Part(""), False
        if self.peek() in ("R", "O"):
            qualifiers += " " + words.POINTERS[self.text[self.at]]
            self.at += 1
        while not self.take("E"):
            letter, two = self.peek(), self.text[self.at : self.at + 2]
            if letter == "I" and found.left:
                found = self.with_arguments(found)
            elif found.left and letter == "M":  # what follows is in the initializer of a member
                self.at += 1
                continue
            elif not found.left and letter == "S":
                found = Part("std") if self.take("St") else self.substituted()
                self.last = found.last
                continue
            elif not found.left and (letter == "T" or two in ("Dt", "DT")):
                found = self.type()
                continue
            else:
                plain, returns = self._unqualified()
                found = Part(short(f"{found.left}::{plain}" if found.left else plain), last=self.last)
            if self.peek() != "E":
                self.known.append(found)
        self.signature = Signature(qualifiers, returns and found.template)
        return found

    def _local(self) -> Part:
        self.expect("Z")
        around = self.encoding()
        self.expect("E")
        if self.take("s"):
            found = Part("string literal")
        else:
            if self.take("d"):
                around += f"::{{default arg#{self._ordinal()}}}"
            found = self.name()
        if self.take("__"):
            self.number()
            self.expect("_")
        elif self.take("_"):
            self.at += 1
        return found._replace(left=short(f"{around}::{found.left}"))

    def _unqualified(self) -> tuple[str, bool]:
        """One part of a name, and whether a template of it says what it returns."""
        self.take("L")  # not seen outside of its file
        letter, two = self.peek(), self.text[self.at : self.at + 2]
        returns = True
        if letter.isdigit():
            name = self.counted()
            name = self.last = ANONYMOUS if name.startswith("_GLOBAL__N") else name
        elif letter in ("C", "D") and two[1:].isdigit():
            self.at += 2
            name, returns = ("~" if letter == "D" else "") + self.last, False
            if not self.last:
                raise Odd
        elif self.take("DC"):
            parts = []
            while not self.take("E"):
                parts.append(self.counted())
            name = f"[{', '.join(parts)}]"
        elif self.take("Ut"):
            name = f"{{unnamed type#{self._ordinal()}}}"
        elif self.take("Ul"):
            before, self.in_lambda = self.in_lambda, True
            shown = self.parameters()
            self.in_lambda = before
            self.expect("E")
            name = f"{{lambda{shown}#{self._ordinal()}}}"
        elif self.take("cv"):
            if self.peek() == "T" and not self.arguments:  # its own, which follow
                raise Odd
            name, returns = f"operator {self.type()}", False
        elif self.take("li"):
            name = f'operator"" {self.counted()}'
        elif two in words.OPERATORS:
            self.at += 2
            name = "operator" + words.OPERATORS[two]
        else:
            raise Odd
        while self.take("B"):
            name += f"[abi:{self.counted()}]"
        return name, returns

    def _ordinal(self) -> int:
        """_ is the first, 0_ the second."""
        number = 1 if self.peek() == "_" else 2 + self.number()
        self.expect("_")
        return number
