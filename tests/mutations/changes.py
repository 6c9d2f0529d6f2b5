"""Every change of one operator or constant that a file allows: each a copy of the file with one small mistake."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One mistake."""

    line: int
    says: str
    tree: ast.AST
    place: int  # of the node, as ast.walk comes to it
    number: int  # of what could be changed in it
    constant: bool  # else an operator or a condition

    @property
    def text(self) -> str:
        """The whole file with it."""
        mistaken = copy.deepcopy(self.tree)
        node = next(it for at, it in enumerate(ast.walk(mistaken)) if at == self.place)
        next(make for at, (_, make) in enumerate(_made(node)) if at == self.number)()
        return ast.unparse(mistaken)


def changes(text: str) -> list[Change]:
    tree = ast.parse(text)
    found = []
    declared = {it for node in ast.walk(tree) for by in _declarations(node) for it in ast.walk(by)}
    for place, node in enumerate(ast.walk(tree)):
        if node in declared:
            continue
        for number, (says, _) in enumerate(_made(node)):
            constant = isinstance(node, ast.Constant)
            found.append(Change(getattr(node, "lineno", 0), says, tree, place, number, constant))
    return found


def _declarations(node: ast.AST) -> Iterator[ast.AST]:
    """What decides nothing: @dataclass(frozen=True), and annotations, which are never evaluated here."""
    yield from getattr(node, "decorator_list", ())
    for name in ("annotation", "returns"):
        if isinstance(said := getattr(node, name, None), ast.AST):
            yield said


def _made(node: ast.AST) -> Iterator[tuple[str, _Make]]:
    """What could be changed in a node, in words, and the function that does it."""
    if isinstance(node, ast.Compare):
        for place, old in enumerate(node.ops):
            yield _words(old, _COMPARED[type(old)]), _Make(node.ops, place, _COMPARED[type(old)]())
    elif isinstance(node, ast.BinOp) and type(node.op) in _CALCULATED and not _of_types(node):
        yield _words(node.op, _CALCULATED[type(node.op)]), _Make(node, "op", _CALCULATED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        new = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield _words(node.op, new), _Make(node, "op", new())
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        if ast.unparse(node.test) == "TYPE_CHECKING":  # imports for mypy decide nothing
            return
        if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
            yield "not X → X", _Make(node, "test", node.test.operand)
        else:
            yield "if X → if not X", _Make(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} → {not node.value}", _Make(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} → {node.value + 1}", _Make(node, "value", node.value + 1)


def _of_types(node: ast.BinOp) -> bool:
    """An annotation such as `str | None` is no calculation."""
    names = [it for it in ast.walk(node) if isinstance(it, ast.Constant | ast.Name)]
    kinds = ("str", "int", "float", "bytes", "bool", "None")
    return isinstance(node.op, ast.BitOr) and any(ast.unparse(it) in kinds for it in names)


def _words(old: ast.AST, new: type[ast.AST]) -> str:
    return f"{type(old).__name__} → {new.__name__}"


@dataclass(frozen=True, slots=True)
class _Make:
    """Puts the mistake in."""

    where: ast.AST | list[ast.cmpop]
    name: str | int
    new: object

    def __call__(self) -> None:
        if isinstance(self.where, list):
            self.where[int(self.name)] = self.new  # type: ignore[call-overload]
        else:
            setattr(self.where, str(self.name), self.new)
