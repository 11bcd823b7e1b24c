"""Release the covariance matrix of a sensitive table once, under differential privacy.

The public face: everything a custodian or an analyst needs is importable from here.  Names are resolved on first
use, so that ``import dpcov`` itself stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpcov.artifact import Release
    from dpcov.data.schema import Boolean, Categorical, Ignored, Numeric, Schema, Weights
    from dpcov.data.sources.sql import Query
    from dpcov.errors import DpcovError
    from dpcov.noise.entropy import SeededEntropy, SystemEntropy
    from dpcov.pipeline import checkpoint, moments, release, second_moment
    from dpcov.privacy.budget import Budget
    from dpcov.privacy.ledger import Ledger

_HOMES = {
    "Boolean": "dpcov.data.schema",
    "Budget": "dpcov.privacy.budget",
    "Categorical": "dpcov.data.schema",
    "DpcovError": "dpcov.errors",
    "Ignored": "dpcov.data.schema",
    "Ledger": "dpcov.privacy.ledger",
    "Numeric": "dpcov.data.schema",
    "Query": "dpcov.data.sources.sql",
    "Release": "dpcov.artifact",
    "Schema": "dpcov.data.schema",
    "SeededEntropy": "dpcov.noise.entropy",
    "SystemEntropy": "dpcov.noise.entropy",
    "Weights": "dpcov.data.schema",
    "checkpoint": "dpcov.pipeline",
    "moments": "dpcov.pipeline",
    "release": "dpcov.pipeline",
    "second_moment": "dpcov.pipeline",
}

__all__ = [
    "Boolean",
    "Budget",
    "Categorical",
    "DpcovError",
    "Ignored",
    "Ledger",
    "Numeric",
    "Query",
    "Release",
    "Schema",
    "SeededEntropy",
    "SystemEntropy",
    "Weights",
    "checkpoint",
    "load",
    "moments",
    "release",
    "second_moment",
]


def load(path: str) -> "Release":
    """Read a release file, refusing damaged, altered or unknown ones."""
    from dpcov.artifact import Release

    return Release.load(path)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpcov' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
