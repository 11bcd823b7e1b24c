"""Estimators and intervals from a release: covariance, components, regressions, discriminants, factors.

Contract: a :class:`~dpcov.published.release.Release` is all they see, so any number of them costs nothing
more; rows go through :mod:`dpcov.analysis.estimators.fit_rows` alone.  Names are resolved on first use.
Needs the extra ``analysis``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.analysis.estimators.correlation import PrivateCorrelation, PrivateGraphicalLasso
    from dpcov.analysis.estimators.covariance import PrivateCovariance
    from dpcov.analysis.estimators.discriminant import PrivateLDA, PrivateQDA
    from dpcov.analysis.estimators.factor import PrivateFactorAnalysis
    from dpcov.analysis.estimators.pca import PrivatePCA
    from dpcov.analysis.estimators.regression import (
        PrivateComponentRegression,
        PrivateLinearRegression,
    )
    from dpcov.analysis.estimators.ridge import PrivateRidge
    from dpcov.analysis.intervals.inference import (
        coefficient_intervals,
        correlation_intervals,
        eigenvalue_intervals,
        mean_intervals,
        variance_intervals,
    )
    from dpcov.analysis.intervals.table import IntervalTable
    from dpcov.analysis.problems import NoiseWarning, SpentError

_HOMES = {
    "IntervalTable": "intervals.table",
    "NoiseWarning": "problems",
    "PrivateComponentRegression": "estimators.regression",
    "PrivateCorrelation": "estimators.correlation",
    "PrivateCovariance": "estimators.covariance",
    "PrivateFactorAnalysis": "estimators.factor",
    "PrivateGraphicalLasso": "estimators.correlation",
    "PrivateLDA": "estimators.discriminant",
    "PrivateLinearRegression": "estimators.regression",
    "PrivatePCA": "estimators.pca",
    "PrivateQDA": "estimators.discriminant",
    "PrivateRidge": "estimators.ridge",
    "SpentError": "problems",
    "coefficient_intervals": "intervals.inference",
    "correlation_intervals": "intervals.inference",
    "eigenvalue_intervals": "intervals.inference",
    "mean_intervals": "intervals.inference",
    "variance_intervals": "intervals.inference",
}

__all__ = [
    "IntervalTable",
    "NoiseWarning",
    "PrivateComponentRegression",
    "PrivateCorrelation",
    "PrivateCovariance",
    "PrivateFactorAnalysis",
    "PrivateGraphicalLasso",
    "PrivateLDA",
    "PrivateLinearRegression",
    "PrivatePCA",
    "PrivateQDA",
    "PrivateRidge",
    "SpentError",
    "coefficient_intervals",
    "correlation_intervals",
    "eigenvalue_intervals",
    "mean_intervals",
    "variance_intervals",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpcov.analysis' has no attribute {name!r}")
    try:
        return getattr(import_module(f"dpcov.analysis.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("sklearn"):
            raise
        raise UsageError(
            "Estimators need scikit-learn. Install it: pip install 'dpcov[analysis]'"
        ) from None


def __dir__() -> list[str]:
    return __all__
