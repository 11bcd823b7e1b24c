"""Estimators and intervals from a release: covariance, components, regressions, discriminants, factors.

Promise: a :class:`~dpcov.artifact.Release` is all they see, so any number of them costs nothing more; rows go through
:mod:`dpcov.analysis.second_door` alone.  Names are resolved on first use.  Needs the extra ``analysis``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpcov.errors import UsageError

if TYPE_CHECKING:
    from dpcov.analysis.correlation import PrivateCorrelation, PrivateGraphicalLasso
    from dpcov.analysis.covariance import PrivateCovariance
    from dpcov.analysis.discriminant import PrivateLDA, PrivateQDA
    from dpcov.analysis.factor import PrivateFactorAnalysis
    from dpcov.analysis.inference import (
        coefficient_intervals,
        conf_int,
        correlation_intervals,
        eigenvalue_intervals,
        mean_intervals,
        variance_intervals,
    )
    from dpcov.analysis.intervals import IntervalTable
    from dpcov.analysis.pca import PrivatePCA
    from dpcov.analysis.problems import NoiseWarning, SpentError
    from dpcov.analysis.regression import PrivateComponentRegression, PrivateLinearRegression
    from dpcov.analysis.ridge import PrivateRidge

_HOMES = {
    "IntervalTable": "intervals",
    "NoiseWarning": "problems",
    "PrivateComponentRegression": "regression",
    "PrivateCorrelation": "correlation",
    "PrivateCovariance": "covariance",
    "PrivateFactorAnalysis": "factor",
    "PrivateGraphicalLasso": "correlation",
    "PrivateLDA": "discriminant",
    "PrivateLinearRegression": "regression",
    "PrivatePCA": "pca",
    "PrivateQDA": "discriminant",
    "PrivateRidge": "ridge",
    "SpentError": "problems",
    "coefficient_intervals": "inference",
    "conf_int": "inference",
    "correlation_intervals": "inference",
    "eigenvalue_intervals": "inference",
    "mean_intervals": "inference",
    "variance_intervals": "inference",
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
    "conf_int",
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
        raise UsageError("Estimators need scikit-learn. Install it: pip install 'dpcov[analysis]'") from None


def __dir__() -> list[str]:
    return __all__
