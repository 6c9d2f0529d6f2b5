"""What the codes in C++ symbols stand for (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling)."""

from __future__ import annotations

from zombiescope.naming.mangled import table

BUILTIN = table(
    """
    v void; w wchar_t; b bool; c char; a signed char; h unsigned char; s short; t unsigned short; i int;
    j unsigned int; l long; m unsigned long; x long long; y unsigned long long; n __int128; o unsigned __int128;
    f float; d double; e long double; g __float128; z ...; Dn decltype(nullptr); Da auto; Dc decltype(auto);
    Di char32_t; Ds char16_t; Du char8_t; Dh half
    """
)
INTEGERS = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul"}
INTEGERS |= {"long long": "ll", "unsigned long long": "ull"}
QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
POINTERS = {"P": "*", "R": "&", "O": "&&"}
_CHAR = "<char, std::char_traits<char>"
# And what a constructor of it is called.
STANDARD = {
    "a": ("std::allocator", "allocator"),
    "b": ("std::basic_string", "basic_string"),
    "s": (f"std::basic_string{_CHAR}, std::allocator<char> >", "basic_string"),
    "i": (f"std::basic_istream{_CHAR} >", "basic_istream"),
    "o": (f"std::basic_ostream{_CHAR} >", "basic_ostream"),
    "d": (f"std::basic_iostream{_CHAR} >", "basic_iostream"),
}
OPERATORS = table(
    """
    nw  new; na  new[]; dl  delete; da  delete[]; aw  co_await; ps +; ng -; ad &; de *; co ~; pl +; mi -; ml *;
    dv /; rm %; an &; or |; eo ^; aS =; pL +=; mI -=; mL *=; dV /=; rM %=; aN &=; oR |=; eO ^=; ls <<; rs >>;
    lS <<=; rS >>=; eq ==; ne !=; lt <; gt >; le <=; ge >=; ss <=>; nt !; aa &&; oo ||; pp ++; mm --; cm ,; pm ->*;
    pt ->; cl (); ix []
    """
)
ABOUT_TYPES = {"TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for "}
ABOUT_NAMES = {"TH": "TLS init function for ", "TW": "TLS wrapper function for ", "GV": "guard variable for "}
