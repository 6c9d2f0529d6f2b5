"""Symbols of C++ and Rust into names, against binutils and a table; and symbols made to hurt."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.naming.programs import compiled

from zombiescope.naming.demangled import LONGEST, demangled
from zombiescope.naming.elf import Elf
from zombiescope.profile import perf_script

DROP = "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$"
HASH = "17h0123456789abcdefE"
KNOWN = {
    "main": "main",
    "_start": "_start",
    "_Read": "_Read",
    "_Z": "_Z",
    "_Zfoo": "_Zfoo",
    "_Z3foov": "foo",
    "_ZL3barPKc": "bar",
    "_ZN12_GLOBAL__N_13runEv": "(anonymous namespace)::run",
    "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back",
    "_ZNSsC1Ev": "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string",
    "_ZN3fooC2ERKS_.cold": "foo::foo",
    "_ZN3fooD0Ev": "foo::~foo",
    "_ZN1AIiEC1IcEERKS_IT_E": "A<int>::A<char>",
    "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc": "std::operator<< <std::char_traits<char> >",
    "_ZN1AIPFPFvvEiEE1fEv": "A<void (*(*)(int))()>::f",
    "_ZN1AIRA3_iE1fEv": "A<int (&) [3]>::f",
    "_ZN1AIMS_KFviEE1fEv": "A<void (A::*)(int) const>::f",
    "_ZN1AIJicEE1fEv": "A<int, char>::f",
    "_ZN1AILb1ELin1ELj7EE1fEv": "A<true, -1, 7u>::f",
    "_ZN1AcviEv": "A::operator int",
    "_ZZN3foo3barEvENKUlvE_clEv": "foo::bar()::{lambda()#1}::operator()",
    "_ZN1A1fB5cxx11Ev": "A::f[abi:cxx11]",
    "_ZThn8_N3foo3barEv": "non-virtual thunk to foo::bar()",
    f"_ZN4core3fmt5write{HASH}": "core::fmt::write",
    f"_ZN{len(DROP)}{DROP}4drop{HASH}.llvm.123": "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop",
    "_RNvNtCs1234_7mycrate3foo3bar": "mycrate::foo::bar",
    "_RNvC6_123foo3bar": "123foo::bar",
    "_RNCNvC4main3run0": "main::run::{closure#0}",
    "_RNCNCNvC4main3run00": "main::run::{closure#0}::{closure#0}",
    "_RINvNtC4core3mem4swapAhj20_E": "core::mem::swap::<[u8; 32]>",
    "_RNvXs_C4mainRNtB4_3FooNtNtC4core3fmt5Debug3fmt": "<&main::Foo as core::fmt::Debug>::fmt",
    "_RINvC1a1fFUKCmEuDNtB2_1TEL_TxEE": 'a::f::<unsafe extern "C" fn(u32), dyn a::T, (i64,)>',
    "_RNvC1au8gdel_5qa": "a::gödel",
}
WORDS = "3456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
HOSTILE = [
    "_Z1fI" + "P" * 4000 + "iE",
    "_ZN" + "1a" * 2000 + "E",
    "_Z1fI" + "1aI" * 1300 + "i" + "E" * 1300,
    "_ZN1XI1A1AE" + "".join(f"1yIS{it}_S{it}_E" for it in WORDS * 3) + "E",  # each twice as long as the one before
    "_ZZ1fIJ" + "i" * 30 + "EEv" + "DpPFvDpT_E" * 60 + "E1x",
    "_Z" + "Z" * 4000,
    "_Z1fI" + "L_Z1fI" * 600,
    "_Z" + "9" * 4000,
    "_R" + "NvC" * 1300 + "1a",
    "_RIC1a" + "B_" * 2000 + "E",
    "_RMC1a" + "T" * 3000,
    "_RIC1a" + "".join(f"TB{it}_B{it}_E" for it in "4bhnt") * 100 + "E",
    "_RMC1aFG" + "z" * 9 + "_",
    "_RMC1aDG_" + "C1a" * 1000,
    "_ZN" + "1$" * 1000 + HASH,
    "_Z" + "a" * 100_000,
]


@pytest.mark.parametrize(("symbol", "name"), KNOWN.items())
def test_known_names(symbol: str, name: str) -> None:
    assert demangled(symbol) == name


def test_the_library_of_cplusplus_is_spelled_as_binutils_does() -> None:
    if shutil.which("c++filt") is None or shutil.which("g++") is None:
        pytest.skip(CANNOT + "compare with c++filt: not installed")
    library = subprocess.check_output(["g++", "-print-file-name=libstdc++.so.6"], text=True).strip()
    symbols = sorted({it[2] for it in Elf.parse(Path(library).read_bytes()).functions if it[2].startswith("_Z")})
    expected = subprocess.run(["c++filt", "-p"], input="\n".join(symbols), capture_output=True, text=True, check=True)
    told = [it.replace("> >", ">>") for it in expected.stdout.split("\n")]
    names = [demangled(it).replace("> >", ">>") for it in symbols]
    odd = [pair for pair in zip(names, told, strict=True) if pair[0] != pair[1] and len(pair[1]) < LONGEST]
    assert len(symbols) > 3000 and len(odd) <= len(symbols) // 200, odd[:5]


@pytest.mark.parametrize("symbol", HOSTILE, ids=lambda it: it[:12])
def test_a_symbol_made_to_hurt_costs_milliseconds_and_gives_a_short_name(symbol: str) -> None:
    started = time.thread_time()
    name = demangled(symbol)
    assert time.thread_time() - started < 0.2  # 20 ms at the most, on a machine that does nothing else
    assert 0 < len(name) <= LONGEST


def test_damaged_symbols_are_no_error() -> None:
    chance = random.Random(7)
    for _ in range(5000):
        letters = list(chance.choice(list(KNOWN)) + chance.choice(list(KNOWN)))
        for _ in range(chance.randint(1, 5)):
            letters[chance.randrange(min(2, len(letters) - 1), len(letters))] = chance.choice(
                "NSTEIJXLDPRKFAMBCGQ_0123abcu"
            )
        assert demangled("".join(letters))


def test_a_long_name_is_cut_and_the_cut_is_shown() -> None:
    name = demangled("_ZN" + "9abcdefghi" * 200 + "Ev")
    assert len(name) == LONGEST and name.startswith("abcdefghi::abcdefghi::") and name.endswith("…")


def test_functions_of_a_program_are_named_as_written(tmp_path: Path) -> None:
    source = "namespace shop { template <class T> struct Basket { T sum; __attribute__((noinline)) void add(T); };"
    source += "template <class T> void Basket<T>::add(T it) { sum += it; } }"
    source += "int main() { shop::Basket<int> one{}; one.add(1); return one.sum; }"
    program = compiled(source, tmp_path / "shop", language="c++")
    elf = Elf.parse(program.read_bytes())
    assert "_ZN4shop6BasketIiE3addEi" in {symbol for _, _, symbol in elf.functions}
    listed = {elf.name(offset) for offset in range(0x1000, 0x1400)}
    assert "shop::Basket<int>::add" in listed and "main" in listed


def test_other_tools_mangled_names_are_read_the_same() -> None:
    text = b"app 1/1 [000] 1.000000: cpu-clock: \n\t  40 _ZN4shop3addEi+0x1 (/bin/app)\n\t 50 main+0x2 (/bin/app)\n\n"
    found = perf_script.parse([text])
    assert found.frames.names(0) == ("main", "shop::add")
