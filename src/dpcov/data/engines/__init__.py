"""Where moments are gathered: the engines by name, found by the type of the data when none is named.

Contract: an engine is imported when it is used, and never to recognise data; an engine that cannot be used
says what to install.  All engines return equal moments.
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


@dataclass(frozen=True, kw_only=True)
class _Row:
    """An engine: its extra, the packages that the extra brings, and the packages whose objects it takes."""

    extra: str | None = None
    packages: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


_ENGINES = {
    LOCAL: _Row(),
    "dask": _Row(extra="dask", packages=("dask", "distributed"), takes=("dask", "dask_expr")),
    "spark": _Row(extra="spark", packages=("pyspark", "py4j"), takes=("pyspark",)),
    "device": _Row(extra="device", packages=("torch",), takes=("torch",)),
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
    row = _ENGINES[name]
    try:
        return cast(Engine, import_module(f"dpcov.data.engines.{name}"))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in row.packages:
            raise
    raise UsageError(f"The {name} engine needs {missing}: pip install 'dpcov[{row.extra}]'")
