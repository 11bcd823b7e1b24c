"""Find the engine that gathers moments, by its name or by the type of the data.

Contract: an engine is imported when it is used, and never to recognize data; an engine that cannot
be used says what to install.  All engines return equal moments.
"""

from importlib import import_module
from typing import Any

from dpcov.errors import UsageError
from dpcov.extras import load_extra

LOCAL = "local"
# The packages whose objects an engine takes, and those that its extra brings.
_TAKES = {LOCAL: (), "dask": ("dask", "dask_expr"), "spark": ("pyspark",), "device": ("torch",)}
_NEEDS = {"dask": ("dask", "distributed"), "spark": ("pyspark", "py4j"), "device": ("torch",)}


def name_engine(data: Any, engine: str | None = None) -> str:
    """Return the engine that was named, or the one for data of this type."""
    if engine is None:
        package = type(data).__module__.partition(".")[0]
        return next((name for name, takes in _TAKES.items() if package in takes), LOCAL)
    if engine not in _TAKES:
        raise UsageError(f"There is no engine of this name. Use one of: {', '.join(_TAKES)}.")
    return engine


def load_engine(name: str) -> Any:
    """Import an engine, or say how to install what it needs.

    It has ``columns(data)``, ``check(data, task)``, which refuses what cannot be gathered, and
    ``moments(data, task, progress)``, the exact sensitive answer.
    """
    for package in _NEEDS.get(name, ()):
        load_extra(package, f"The {name} engine", name)
    return import_module(f"dpcov.data.engines.{name}")
