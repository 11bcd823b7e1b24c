"""Find the engine that gathers moments, by its name or by the type of the data.

Contract: an engine is imported when it is used, and never to recognize data; an engine that cannot
be used says what to install.  All engines return equal moments.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from dpcov.data.engines.base import (
    BallEncoding,
    Encoding,
    Engine,
    MomentsTask,
    TableEncoding,
    TellRows,
)
from dpcov.errors import UsageError

__all__ = [
    "LOCAL",
    "BallEncoding",
    "Encoding",
    "Engine",
    "MomentsTask",
    "TellRows",
    "TableEncoding",
    "engine_names",
    "load_engine",
    "name_engine",
]

LOCAL = "local"


@dataclass(frozen=True)
class _Row:
    """An engine: the packages whose objects it takes, and those that its extra brings."""

    takes: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


_ENGINES = {
    LOCAL: _Row(),
    "dask": _Row(("dask", "dask_expr"), ("dask", "distributed")),
    "spark": _Row(("pyspark",), ("pyspark", "py4j")),
    "device": _Row(("torch",), ("torch",)),
}


def engine_names() -> tuple[str, ...]:
    """Names of all engines."""
    return tuple(_ENGINES)


def name_engine(data: Any, engine: str | None = None) -> str:
    """Return the engine that was named, or the one for data of this type."""
    if engine is None:
        package = type(data).__module__.partition(".")[0]
        return next((name for name, row in _ENGINES.items() if package in row.takes), LOCAL)
    if engine not in _ENGINES:
        raise UsageError(f"There is no engine of this name. Use one of: {', '.join(_ENGINES)}.")
    return engine


def load_engine(name: str) -> Engine:
    """Import an engine, or say how to install what it needs."""
    try:
        return cast(Engine, import_module(f"dpcov.data.engines.{name}"))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _ENGINES[name].packages:
            raise
    # Raised outside the handler, so that the import error does not hang on to it.
    raise UsageError(f"The {name} engine needs {missing}: pip install 'dpcov[{name}]'")
