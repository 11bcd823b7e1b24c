"""The changes that a mutant may have: one small mistake somewhere in a module, found in its syntax tree.

What cannot change behavior is left alone: annotations, docstrings, decorators, class keywords, the words of an
error or a formatted string, ``__all__``, ``TYPE_CHECKING`` blocks and the ``strict`` of a ``zip``.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Place = tuple[tuple[str, int | None], ...]
"""Fields, and positions in lists, that lead from the module to a node."""

_FLIPS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_params"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A module with one mistake in it."""

    line: int
    change: str
    tree: ast.Module
    place: Place
    new: ast.AST

    @property
    def source(self) -> str:
        """The mutated module's text."""
        changed = copy.deepcopy(self.tree)
        _put(changed, self.place, self.new)
        return ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module's text, in the order of its syntax tree."""
    tree = ast.parse(source)
    for place, node in _visit(tree, ()):
        for new in _replacements(node):
            words = f"{_words(node)} -> {_words(new)}"
            yield Mutant(line=node.lineno, change=words, tree=tree, place=place, new=new)


def _words(node: Any) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _visit(node: ast.AST, place: Place) -> Iterator[tuple[Place, Any]]:
    """Visit the nodes whose change could matter."""
    if place and not isinstance(node, ast.Slice) and hasattr(node, "lineno"):
        yield place, node
    if isinstance(node, ast.Raise | ast.JoinedStr) or _without_effect(node):
        return
    for field, value in ast.iter_fields(node):
        if field in _LEFT_ALONE or (isinstance(node, ast.ClassDef) and field in {"keywords", "bases"}):
            continue
        if isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _visit(item, (*place, (field, position)))
        elif isinstance(value, ast.AST):
            yield from _visit(value, (*place, (field, None)))


def _without_effect(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
    return False


def _replacements(node: Any) -> Iterator[ast.AST]:
    """What may stand at a node's place instead."""
    match node:
        case ast.Compare():
            yield from _comparisons(node)
        case ast.BinOp(op=operator) if type(operator) in _SWAPS and not _text(node):
            yield ast.BinOp(node.left, _SWAPS[type(operator)](), node.right)
        case ast.AugAssign(op=operator) if type(operator) in _SWAPS:
            yield ast.AugAssign(node.target, _SWAPS[type(operator)](), node.value)
        case ast.BoolOp(op=operator):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case _:
            yield from _statements(node)


def _statements(node: Any) -> Iterator[ast.AST]:
    match node:
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            changed = copy.copy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.Return(value=value) if value is not None and not (
            isinstance(value, ast.Constant) and not value.value
        ):
            yield ast.Return(ast.Constant(None))
        case ast.Raise():
            yield ast.Pass()
        case ast.Subscript(slice=ast.Slice() as bounds):
            yield from _slices(node, bounds)


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for position, operator in enumerate(node.ops):
        for other in _FLIPS[type(operator)]:
            yield ast.Compare(
                node.left, [*node.ops[:position], other(), *node.ops[position + 1 :]], node.comparators
            )


def _slices(node: ast.Subscript, bounds: ast.Slice) -> Iterator[ast.AST]:
    """Move a bound by one; bounds that are numbers are changed as numbers."""
    for side in ("lower", "upper"):
        bound = getattr(bounds, side)
        if bound is not None and not isinstance(bound, ast.Constant):
            moved = copy.copy(bounds)
            setattr(moved, side, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
            yield ast.Subscript(node.value, moved, node.ctx)


def _text(node: ast.BinOp) -> bool:
    """Whether strings are joined or filled, not numbers."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides)


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _put(tree: ast.AST, place: Place, new: ast.AST) -> None:
    for field, position in place[:-1]:
        tree = getattr(tree, field) if position is None else getattr(tree, field)[position]
    field, position = place[-1]
    if position is None:
        setattr(tree, field, new)
    else:
        getattr(tree, field)[position] = new
