"""Small faults that are put into Python source: what `mutants.py` tries."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_SHORT = 110  # characters of code in a record

_COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """A fault: its line, the code before and after, and the whole source with it."""

    line: int
    before: str
    after: str
    source: str


def mutants(source: str, only: tuple[str, ...] = ()) -> list[Mutant]:
    """Return all faults of a source, or those in some of its functions and classes."""
    tree = ast.parse(source)
    found = []
    for node in _mutable(tree, only):
        for new in _variants(node):
            mutated = ast.unparse(ast.fix_missing_locations(_Swap(node, new).visit(_shared_copy(tree, node))))
            line = (node.iter if isinstance(node, ast.comprehension) else node).lineno  # type: ignore[attr-defined]
            found.append(Mutant(line, _short(node), _short(new), mutated))
    return found


def _shared_copy(tree: ast.Module, kept: ast.AST) -> ast.Module:
    """Copy a tree, but for one node, by which `_Swap` finds its place."""
    return copy.deepcopy(tree, {id(kept): kept})


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST):
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _mutable(tree: ast.Module, only: tuple[str, ...]) -> Iterator[ast.AST]:
    """Yield the nodes that run, without annotations, docstrings, assertions and the wording of errors."""
    roots: list[ast.AST] = [node for node in ast.walk(tree) if getattr(node, "name", None) in only] if only else [tree]
    while roots:
        node = roots.pop(0)
        if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom) or _is_wording(node):
            continue
        yield node
        if isinstance(node, ast.Raise):
            continue
        skipped = {"annotation", "returns", "decorator_list"} | ({"args"} if _is_function(node) else set())
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            roots += [child for child in children if isinstance(child, ast.AST) and field not in skipped]


_SAME_WHEN_SWAPPED = ("isinstance", "min", "max", "np.minimum", "np.maximum", "np.union1d", "np.intersect1d")
_WORDING = ("Note", "ApiError", "StorageError", "ConfigError", "DataError", "TrainingError", "TypeVar")


def _is_wording(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _name(node) in _WORDING)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right)
        case ast.BoolOp(op=op):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            negated = copy.copy(node)
            negated.test = ast.UnaryOp(ast.Not(), test)  # type: ignore[attr-defined]
            yield negated
        case ast.For() | ast.comprehension():
            yield _with_iter_reversed(node)
        case ast.Call():
            yield from _calls(node)
        case ast.Return(value=(ast.Name() | ast.Call() | ast.Subscript() | ast.ListComp()) as value):
            yield ast.Return(_reversed(value))
        case ast.Subscript(slice=ast.Slice(), ctx=ast.Load()):
            yield _reversed(node)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Yield a call with one argument of `zip` reversed, or with its first two arguments swapped."""
    match node:
        case ast.Call(func=ast.Name("zip"), args=[first, _, *_]):
            yield ast.Call(node.func, [_list_reversed(first), *node.args[1:]], node.keywords)
        case ast.Call() if _name(node) in _SAME_WHEN_SWAPPED:
            return
        case ast.Call(args=[first, second, *rest]) if not isinstance(second, ast.Starred):
            yield ast.Call(node.func, [second, first, *rest], node.keywords)


def _with_iter_reversed(node: ast.For | ast.comprehension) -> ast.AST:
    other = copy.copy(node)
    other.iter = _list_reversed(node.iter)
    return other


def _list_reversed(value: ast.expr) -> ast.expr:
    inner = ast.Call(ast.Name("list", ast.Load()), [value], [])
    return ast.Call(ast.Name("reversed", ast.Load()), [inner], [])


def _reversed(value: ast.expr) -> ast.expr:
    return ast.Subscript(value, ast.Slice(step=ast.UnaryOp(ast.USub(), ast.Constant(1))), ast.Load())


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
