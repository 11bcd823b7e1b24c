"""Estimators and intervals from a release: covariance, components, regressions, classes, factors.

They read a release alone, so any number of them costs nothing more.  Needs the extra ``analysis``.
"""

from dpcov.errors import UsageError

try:
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
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("sklearn"):
        raise
    raise UsageError(
        "Estimators need scikit-learn. Install it: pip install 'dpcov[analysis]'"
    ) from None

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
