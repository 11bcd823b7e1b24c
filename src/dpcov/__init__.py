"""Release the covariance matrix of a sensitive table once, under differential privacy.

Everything a custodian or an analyst needs is importable from here.  Names are resolved on first
use, so that ``import dpcov`` itself stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from dpcov.data.layout import FileLayout as FileLayout
    from dpcov.data.schema.declared import Boolean as Boolean
    from dpcov.data.schema.declared import Categorical as Categorical
    from dpcov.data.schema.declared import Date as Date
    from dpcov.data.schema.declared import Ignored as Ignored
    from dpcov.data.schema.declared import Numeric as Numeric
    from dpcov.data.schema.declared import Weights as Weights
    from dpcov.data.schema.draft import draft as draft
    from dpcov.data.schema.schema import Schema as Schema
    from dpcov.data.sources import Query as Query
    from dpcov.errors import DpcovError as DpcovError
    from dpcov.noise.entropy import SeededEntropy as SeededEntropy
    from dpcov.noise.entropy import SystemEntropy as SystemEntropy
    from dpcov.pipeline.arrays import moments as moments
    from dpcov.pipeline.arrays import second_moment as second_moment
    from dpcov.pipeline.table import checkpoint as checkpoint
    from dpcov.pipeline.table import release as release
    from dpcov.pipeline.table import survey as survey
    from dpcov.privacy.budget import Budget as Budget
    from dpcov.privacy.ledger.ledger import Ledger as Ledger
    from dpcov.published.release import Release as Release

_NAMES = {
    "data.layout": ("FileLayout",),
    "data.schema.declared": ("Boolean", "Categorical", "Date", "Ignored", "Numeric", "Weights"),
    "data.schema.draft": ("draft",),
    "data.schema.schema": ("Schema",),
    "data.sources": ("Query",),
    "errors": ("DpcovError",),
    "noise.entropy": ("SeededEntropy", "SystemEntropy"),
    "pipeline.arrays": ("moments", "second_moment"),
    "pipeline.table": ("checkpoint", "release", "survey"),
    "privacy.budget": ("Budget",),
    "privacy.ledger.ledger": ("Ledger",),
    "published.release": ("Release",),
}
_HOMES = {name: f"dpcov.{home}" for home, names in _NAMES.items() for name in names}
__all__ = sorted(["load", *_HOMES])


def load(path: "str | Path") -> "Release":
    """Read a release file, refusing damaged, altered or unknown ones."""
    from dpcov.published.release import Release

    return Release.load(path)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpcov' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
