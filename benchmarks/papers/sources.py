"""Which code a result depends on, so that stored results are not mistaken for those of other code."""

import ast
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("dpcov", "benchmarks")
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
    for node in ast.walk(ast.parse(_file(module).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name for name in names if name.split(".")[0] in _PACKAGES and _is_module(name)}
    return tuple(sorted(found))


@cache
def _is_module(name: str) -> bool:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def _file(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)
