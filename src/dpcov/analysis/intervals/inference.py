"""Confidence intervals that count both sources of error: which rows were sampled, and the privacy noise.

Contract: a release alone, at no further privacy cost, from its unbiased statistics and the published law of
the noise; deterministic.  Wide rather than wrong: where the noise drowns a quantity, the interval says so.
Derivations and measured coverage: docs/inference.md.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np

from dpcov.analysis.features import Places, feature_columns, find_features, other_features
from dpcov.analysis.intervals.coefficients import coefficient_lines
from dpcov.analysis.intervals.correlations import correlation_lines, partial_correlation_lines
from dpcov.analysis.intervals.eigenvalues import Scaling, scale_of, spectrum_of, unknown_eigenvalue
from dpcov.analysis.intervals.law import (
    MomentLaw,
    Tails,
    all_features,
    moment_law,
    require_intercept,
    require_level,
)
from dpcov.analysis.intervals.moments import mean_lines, variance_lines
from dpcov.analysis.intervals.table import IntervalTable, table
from dpcov.analysis.levels import coding_of, without_references
from dpcov.analysis.problems import InputError
from dpcov.analysis.reading import original_map
from dpcov.published.base import on_one_thread
from dpcov.published.release import Release

if TYPE_CHECKING:
    pass

__all__ = [
    "IntervalTable",
    "coefficient_intervals",
    "correlation_intervals",
    "eigenvalue_intervals",
    "mean_intervals",
    "variance_intervals",
]


@on_one_thread
def mean_intervals(
    release: Release,
    features: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    sampling: bool = True,
) -> IntervalTable:
    """Intervals for means, in original units.

    Parameters
    ----------
    release : Release
    features : sequence of str, optional
        All by default; a table column's name stands for all features made of it.
    level : float
        Of each interval on its own.
    sampling : bool
        Whether the rows are a sample of what the interval is about; if not, it is about the table itself.

    Raises
    ------
    UnknownNoiseError
        Where the release's mechanism publishes no law of its noise.
    ReleaseError
        Without an intercept, or where the noise hides the number of rows.
    """
    law, places = _opened(release, features, level, sampling, "means")
    return table("means", level, mean_lines(law, places, level))


@on_one_thread
def variance_intervals(
    release: Release,
    features: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    sampling: bool = True,
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for variances, in squared original units.

    Parameters
    ----------
    release, features, level, sampling
        As in :func:`mean_intervals`.
    tails : {"moments", "bounded"}
        What stands in for fourth moments, which no release has: plausible ones for a column's mean, variance and
        bounds; or the largest that the bounds allow, which is safe for every table and wide.

    Raises
    ------
    UnknownNoiseError, ReleaseError
        As in :func:`mean_intervals`.
    """
    law, places = _opened(release, features, level, sampling, "variances", tails)
    return table("variances", level, variance_lines(law, places, level, tails))


@on_one_thread
def correlation_intervals(
    release: Release,
    features: Sequence[str] | None = None,
    *,
    partial: bool = False,
    level: float = 0.95,
    sampling: bool = True,
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for the correlations of all pairs, named ``"a, b"``.

    Parameters
    ----------
    partial : bool
        Correlations when the other chosen features are held fixed; of a column's categories one is left out.
    release, features, level, sampling, tails
        As in :func:`variance_intervals`.

    Raises
    ------
    UnknownNoiseError, ReleaseError
        As in :func:`mean_intervals`.
    """
    what = "partial correlations" if partial else "correlations"
    law, places = _opened(release, features, level, sampling, what, tails)
    if not partial:
        return table(what, level, correlation_lines(law, places, level, tails))
    kept, references = without_references(release, places)
    return table(
        what, level, partial_correlation_lines(law, kept, level, tails), _notes(references)
    )


@on_one_thread
def eigenvalue_intervals(
    release: Release,
    features: Sequence[str] | None = None,
    *,
    n_eigenvalues: int = 3,
    scaling: Scaling = "original",
    level: float = 0.95,
    sampling: bool = True,
    tails: Tails = "moments",
    draws: int = 200,
    seed: int = 0,
) -> IntervalTable:
    """Intervals for the largest eigenvalues of the covariance or correlation matrix.

    Parameters
    ----------
    release, features, level, sampling, tails
        As in :func:`variance_intervals`.
    n_eigenvalues : int
    scaling : {"original", "encoded", "correlation"}
        Units of the columns: the table's, half widths of the public bounds, or standard deviations.
    draws, seed : int
        Of the simulation; the result is the same every time.

    Raises
    ------
    UnknownNoiseError, ReleaseError
        As in :func:`mean_intervals`.
    """
    law, places = _opened(release, features, level, sampling, "eigenvalues", tails)
    if scaling not in get_args(Scaling):
        raise InputError(f"scaling must be one of: {', '.join(get_args(Scaling))}.")
    if not 1 <= n_eigenvalues <= len(places):
        raise InputError(f"n_eigenvalues must be from 1 to {len(places)}, the number of features.")
    what = f"eigenvalues ({scaling} units)"
    scale = scale_of(law, places, scaling)
    if not np.isfinite(scale).all():
        lines = [unknown_eigenvalue(k, len(places)) for k in range(n_eigenvalues)]
        return table(what, level, lines, ("The noise hides the variance of a column.",))
    spectrum = spectrum_of(
        law, places, scale, normalized=scaling == "correlation", tails=tails, draws=draws, seed=seed
    )
    z = law.reaches(level)[0]
    lines = [spectrum.line(k, z) for k in range(n_eigenvalues)]
    if scaling == "correlation":
        lines = [line.clipped(0.0, float(len(places))) for line in lines]
    return table(what, level, lines)


@on_one_thread
def coefficient_intervals(
    release: Release,
    target: str,
    features: Sequence[str] | None = None,
    *,
    alpha: float = 0.0,
    fit_intercept: bool = True,
    level: float = 0.95,
    sampling: bool = True,
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for the intercept and coefficients of a linear regression, in original units.

    Parameters
    ----------
    release : Release
    target : str
        A feature of the release.
    features : sequence of str, optional
        All that do not come from the target's table column by default.  Where all categories of a column are among
        them, the first is left out, and the others are contrasts to it.
    alpha : float
        Ridge penalty as in `PrivateRidge`; the interval is for the coefficients that this
        penalty gives on the population's moments.
    fit_intercept : bool
    level, sampling
        As in :func:`mean_intervals`.
    tails : {"moments", "bounded"}
        ``"moments"``: errors whose variance may grow a little with the features (docs/inference.md).  ``"bounded"``:
        the worst that the bounds allow.

    Returns
    -------
    IntervalTable
        From -inf to inf where the noise may hide a direction of the features.

    Raises
    ------
    UnknownNoiseError, ReleaseError
        As in :func:`mean_intervals`.
    """
    _require_tails(tails)
    columns = feature_columns(release)
    goals = find_features(columns, target)
    if len(goals) != 1:
        raise InputError(f"{target!r} stands for {len(goals)} features; name one of them.")
    chosen = (
        other_features(columns, goals) if features is None else find_features(columns, features)
    )
    if goals[0] in chosen:
        raise InputError("A target cannot be among its own features.")
    if not alpha >= 0:
        raise InputError("alpha must be at least 0.")
    law = moment_law(release, sampling=sampling)
    references: tuple[str, ...] = ()
    if fit_intercept:
        require_intercept(law, "a regression with an intercept (say fit_intercept=False)")
        _, references = without_references(release, chosen)
    lines = coefficient_lines(
        law,
        original_map(release),
        int(goals[0]),
        chosen,
        coding_of(columns, chosen, references),
        alpha=alpha,
        fit_intercept=fit_intercept,
        level=require_level(level),
        tails=tails,
    )
    return table(f"coefficients for {target}", level, lines, _notes(references))


def _notes(references: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"Reference category: {name}." for name in references)


def _opened(
    release: Release,
    features: Sequence[str] | None,
    level: float,
    sampling: bool,
    what: str,
    tails: Tails = "moments",
) -> tuple[MomentLaw, Places]:
    require_level(level)
    _require_tails(tails)
    law = moment_law(release, sampling=sampling)
    require_intercept(law, what)
    if features is None:
        return law, all_features(release)
    return law, find_features(feature_columns(release), features)


def _require_tails(tails: Tails) -> None:
    if tails not in get_args(Tails):
        raise InputError(f"tails must be one of: {', '.join(get_args(Tails))}.")
