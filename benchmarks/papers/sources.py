"""Which code a result depends on, so that stored results are not mistaken for those of other
code."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dpcov

_ROOTS = {"dpcov": Path(dpcov.__file__).parent, "benchmarks": Path(__file__).parents[1]}
_GLUE = {"dpcov.mechanisms.registry"}
"""Lists every mechanism: through it, each one would seem to depend on all others."""


@cache
def fingerprint(*modules: str) -> str:
    """Digest of the modules and of everything in the project that they import, directly or not."""
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in seen and (module in modules or module not in _GLUE):
            seen.add(module)
            waiting.extend(_imports(module))
    digest = hashlib.sha256()
    for module in sorted(seen):
        digest.update(module.encode() + _file(module).read_bytes())
    return digest.hexdigest()[:16]


@cache
def _imports(module: str) -> tuple[str, ...]:
    found = set()
    for node in _executed(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name for name in names if name.split(".")[0] in _ROOTS and _is_module(name)}
    return tuple(sorted(found))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below ``if TYPE_CHECKING``, which change no result."""
    for node in ast.iter_child_nodes(tree):
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            continue
        yield node
        yield from _executed(node)


def _is_module(name: str) -> bool:
    return _file(name).is_file()


def _file(module: str) -> Path:
    """Where a module lies; it is not imported for that."""
    package, *rest = module.split(".")
    path = _ROOTS[package].joinpath(*rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
