"""Estimators and intervals from a release: covariance, components, regressions, classes, factors.

They read a release alone, so any number of them costs nothing more.  Needs the extra ``analysis``.
"""

from dpcov.errors import UsageError

try:
    from dpcov.analysis.estimators.components import PrivateFactorAnalysis as PrivateFactorAnalysis
    from dpcov.analysis.estimators.components import PrivatePCA as PrivatePCA
    from dpcov.analysis.estimators.covariance import PrivateCorrelation as PrivateCorrelation
    from dpcov.analysis.estimators.covariance import PrivateCovariance as PrivateCovariance
    from dpcov.analysis.estimators.covariance import PrivateGraphicalLasso as PrivateGraphicalLasso
    from dpcov.analysis.estimators.discriminant import PrivateLDA as PrivateLDA
    from dpcov.analysis.estimators.discriminant import PrivateQDA as PrivateQDA
    from dpcov.analysis.estimators.linear_model import (
        PrivateLinearRegression as PrivateLinearRegression,
    )
    from dpcov.analysis.estimators.ridge import PrivateRidge as PrivateRidge
    from dpcov.analysis.intervals.differences import difference_intervals as difference_intervals
    from dpcov.analysis.intervals.differences import trend_intervals as trend_intervals
    from dpcov.analysis.intervals.inference import coefficient_intervals as coefficient_intervals
    from dpcov.analysis.intervals.inference import correlation_intervals as correlation_intervals
    from dpcov.analysis.intervals.inference import eigenvalue_intervals as eigenvalue_intervals
    from dpcov.analysis.intervals.inference import function_intervals as function_intervals
    from dpcov.analysis.intervals.inference import mean_intervals as mean_intervals
    from dpcov.analysis.intervals.inference import variance_intervals as variance_intervals
    from dpcov.analysis.intervals.table import IntervalTable as IntervalTable
    from dpcov.analysis.problems import NoiseWarning as NoiseWarning
    from dpcov.analysis.problems import SpentError as SpentError
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("sklearn"):
        raise
    raise UsageError(
        "Estimators and intervals need scikit-learn. Install it: pip install 'dpcov[analysis]'"
    ) from None

# All that is imported above, so that a new estimator is one line.
__all__ = [
    name
    for name, value in sorted(globals().items())
    if getattr(value, "__module__", "").startswith("dpcov.analysis.")
]
