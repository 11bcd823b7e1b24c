"""Import packages that only some uses need.

Contract: a package that is not there is told with the extra that brings it.
"""

from importlib import import_module
from typing import Any

from dpcov.errors import UsageError


def load_extra(module: str, what: str, extra: str = "files") -> Any:
    """Import a package of an extra, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        pass
    # Raised outside the handler, so that the import error does not hang on to it.
    raise UsageError(f"{what} needs {module.partition('.')[0]}: pip install 'dpcov[{extra}]'")
