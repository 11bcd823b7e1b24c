"""Give confidence intervals that count both sources of error: which rows were sampled, and noise.

They read unbiased statistics and the published law of the noise, cost nothing, and are wide where
the noise drowns a quantity.  Derivations and measured coverage: docs/inference.md.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Annotated

import numpy as np

from dpcov.analysis.features import (
    FEATURES_NAMED,
    WITHOUT_ONE,
    coding_of,
    find_features,
    predictors,
    require_intercept,
    require_release,
    verdicts_of,
    without_references,
)
from dpcov.analysis.intervals.coefficients import coefficient_lines
from dpcov.analysis.intervals.eigenvalues import (
    Scaling,
    covariance_of,
    scale_of,
    spectra_of,
    spectrum_of,
)
from dpcov.analysis.intervals.explained import explained_line
from dpcov.analysis.intervals.functions import Function, function_lines
from dpcov.analysis.intervals.law import MomentLaw, Tails
from dpcov.analysis.intervals.moments import correlation_lines, mean_lines, variance_lines
from dpcov.analysis.intervals.of_release import moment_law
from dpcov.analysis.intervals.table import Interval, IntervalTable
from dpcov.analysis.problems import InputError, NotNegative, checked
from dpcov.analysis.reading import half_range_map
from dpcov.errors import ReleaseError, few_of
from dpcov.privacy.options import Between
from dpcov.published.estimate.present import MissingAs
from dpcov.published.file.columns import half_ranges_of
from dpcov.published.linalg.symmetric import Places
from dpcov.published.reading.rows import on_one_thread
from dpcov.published.release import Release
from dpcov.published.words.design import weights_column
from dpcov.published.words.numbers import HIDDEN_PRESENCE, UNTOLD, told_of_rare_pairs
from dpcov.published.words.verdicts import ColumnVerdict

Names = Sequence[str] | None

# What a table of coefficients is called, before the target.
_COEFFICIENTS = "coefficients for "
_PENALIZED = (
    "The penalty is taken as given: intervals are for what it gives without noise. With alpha=0.0 "
    "they are for least squares."
)


@on_one_thread
def mean_intervals(
    release: Release,
    features: Names = None,
    *,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
) -> IntervalTable:
    """Intervals for means, in original units.

    A table column's name among ``features`` means all features made of it.  ``level`` is that of
    each interval on its own.  Without ``sampling`` it is the table that an interval is about, and
    not what its rows are a sample of.

    ``design_effect`` is a public number: the sampling variance relative to that of as many
    independent rows of one weight.  By default Kish's for weights, where the release has what it
    needs, times the rows that one person may have: a person's rows are taken for alike.

    ``missing="at-random"``: for the means of all rows, if values are missing at random
    (docs/missing.md), and not of those in which a value is present.

    Raises UnknownNoiseError where the release's mechanism publishes no law of its noise, and
    ReleaseError without an intercept, or where the noise hides the number of rows.
    """
    law, places = _opened(release, features, level, sampling, design_effect, missing)
    return _table("means", law, mean_lines(law, places), None, *_untold(law, places))


@on_one_thread
def variance_intervals(
    release: Release,
    features: Names = None,
    *,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for variances, in squared original units.

    ``tails`` stands in for fourth moments, which no release has: plausible ones for a column's
    mean, variance and bounds (``"moments"``); or the largest that the bounds allow (``"bounded"``),
    safe for every table and wide.  Other parameters and errors are as in :func:`mean_intervals`.
    """
    law, places = _opened(release, features, level, sampling, design_effect, missing, tails)
    return _table("variances", law, variance_lines(law, places), None, *_untold(law, places))


@on_one_thread
def correlation_intervals(
    release: Release,
    features: Names = None,
    *,
    partial: bool = False,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for the correlations of all pairs: ``table["a", "b"]``.

    They are named ``"a, b"``.  Names with a comma and a space are quoted there: ``"'cost, yearly',
    age"``.
    ``partial``: with the other chosen features held fixed; of a column's categories one is left
    out.  Other parameters and errors are as in :func:`variance_intervals`.
    """
    law, places = _opened(release, features, level, sampling, design_effect, missing, tails)
    references: tuple[str, ...] = ()
    if checked("partial", partial, bool):
        # Levels that hold all rows determine each other.
        places, references = without_references(release, places)
    if len(places) < 2:
        raise InputError("A correlation is one of two features. Name two or more.")
    if not partial:
        return _table("correlations", law, correlation_lines(law, places))
    lines, rare = correlation_lines(law, places, partial=True), told_of_rare_pairs(release, places)
    notes = (f"{rare} {WITHOUT_ONE}",) if rare else ()
    return _table("partial correlations", law, lines, references, *notes)


@on_one_thread
def eigenvalue_intervals(
    release: Release,
    features: Names = None,
    *,
    n_eigenvalues: int | None = None,
    scaling: Scaling = "original",
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
    draws: int = 200,
) -> IntervalTable:
    """Intervals for the largest eigenvalues of the covariance or correlation matrix.

    ``n_eigenvalues`` is three by default, or all of fewer features.  ``scaling`` is the unit of the
    columns: the table's, half widths of the public bounds, or standard deviations.  The simulation
    of ``draws`` has the same result every time.  Other parameters and errors are as in
    :func:`variance_intervals`.
    """
    law, places = _opened(release, features, level, sampling, design_effect, missing, tails)
    scaling = checked("scaling", scaling, Scaling)
    draws = checked("draws", draws, Annotated[int, Between(2)])
    some = Annotated[int, Between(1, len(places))] | None
    n_eigenvalues = checked("n_eigenvalues", n_eigenvalues, some) or min(3, len(places))
    _require_pairs(release, places)
    normalized = scaling == "correlation"
    law = law.restored if normalized else law
    what, scale = f"eigenvalues ({scaling} units)", scale_of(law, places, scaling)
    # A standard deviation that may be zero is not divided by.  Of p eigenvalues of correlations the
    # k-th largest is at most p/k, the largest at least 1.
    if not np.isfinite(scale).all():
        numbers = range(1, n_eigenvalues + 1)
        lines = [Interval(f"eigenvalue {k}", float(k == 1), len(places) / k) for k in numbers]
        return _table(what, law, lines, None, "The noise hides the variance of a column.")
    spectrum = spectrum_of(law, places, scale, normalized=normalized, draws=draws)
    lines = [spectrum.line(k, law.reaches()[0]) for k in range(n_eigenvalues)]
    if normalized:
        lines = [line.clipped(0.0, float(len(places))) for line in lines]
    return _table(what, law, lines)


@on_one_thread
def function_intervals(
    release: Release,
    function: Function,
    features: Names = None,
    *,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    draws: int = 200,
) -> IntervalTable:
    """Intervals for what a function makes of the covariance, such as an indirect effect.

    They go from -inf to inf where the noise may leave it undefined.  Of the categories of a column
    one is left out, as in regressions: all of them determine each other.  Other parameters and
    errors are as in :func:`mean_intervals`.

    Parameters
    ----------
    function : callable
        Of the covariance in original units, a (p, p) pandas frame with names.  It gives a number,
        or a mapping or pandas Series of several, and is called for every simulated covariance.
        A `ValueError` or `ArithmeticError` there says that it is undefined.
    draws : int
        How many are simulated, of sampling and of noise; the result is the same every time.
    """
    law, places = _opened(release, features, level, sampling, design_effect, missing)
    draws = checked("draws", draws, Annotated[int, Between(2)])
    if not callable(function):
        raise InputError("function is called with a covariance: give a function, such as a lambda.")
    # Levels that hold all rows determine each other: no matrix beside theirs is a covariance.
    places, references = without_references(release, places)
    _require_pairs(release, places)
    columns = [law.columns[place] for place in places + 1]
    names, scale = [column.name for column in columns], scale_of(law, places, "correlation")
    if not np.isfinite(scale).all():
        raise ReleaseError(
            "The noise hides the variance of a column, so nothing is known of a function of it. "
            "Name other features; release.diagnose() says which can be used."
        )
    spectra = spectra_of(law, places, scale, draws)
    seen, units = covariance_of(law, places, scale), half_ranges_of(columns) / scale
    lines = function_lines(seen, spectra, units, names, function, law.reaches()[0])
    return _table("functions of the covariance", law, lines, references)


@on_one_thread
def coefficient_intervals(
    release: Release,
    target: str,
    features: Names = None,
    *,
    alpha: float = 0.0,
    fit_intercept: bool = True,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
) -> IntervalTable:
    """Intervals for the intercept and coefficients of a linear regression, in original units.

    They go from -inf to inf where the noise, or with ``tails="bounded"`` few rows at the bounds,
    may hide a direction of the features.

    Parameters
    ----------
    target : str
        A feature of the release.
    features : sequence of str, optional
        By default all that do not come from the target's table column.  Where all categories of a
        column are among them, the first is left out, and the others are contrasts to it.
    alpha : float
        Ridge penalty as in `PrivateRidge`; the interval is for what it gives on the population.
    tails : {"moments", "bounded"}
        ``"moments"``: errors whose variance may grow a little with the features.  ``"bounded"``:
        the worst that the bounds allow.  Others, and the errors, as in :func:`mean_intervals`.
    """
    fit_intercept = checked("fit_intercept", fit_intercept, bool)
    terms = level, sampling, design_effect, missing, tails
    law, chosen, goal, references = _regression(release, target, features, fit_intercept, *terms)
    alpha = checked("alpha", alpha, NotNegative)
    columns = release.restored_features
    coding = coding_of(columns, chosen, references)
    maps = half_range_map(release, fit_intercept)
    lines = coefficient_lines(law, maps, goal, chosen, coding, alpha, fit_intercept)
    notes = (_PENALIZED,) * (alpha > 0)
    if not all(isfinite(x.upper - x.lower) for x in lines):
        notes += (_hides(release, chosen, goal, sampling and tails == "bounded"),)
    return _table(f"{_COEFFICIENTS}{columns[goal].name}", law, lines, references, *notes)


def r2_interval(
    release: Release,
    target: str,
    features: Names = None,
    *,
    alpha: float = 0.0,
    level: float = 0.95,
    sampling: bool = True,
    design_effect: float | None = None,
    missing: MissingAs = "pairwise",
    tails: Tails = "moments",
) -> Interval:
    """Interval for R² of the regression that :func:`coefficient_intervals` is about.

    It has an intercept.  From 0 to 1 where the noise may hide a direction of the features.
    """
    terms = level, sampling, design_effect, missing, tails
    law, chosen, goal, references = _regression(release, target, features, True, *terms)
    coding = coding_of(release.restored_features, chosen, references)
    return explained_line(law, chosen[coding.kept], goal, coding, alpha)


def _regression(
    release: Release,
    target: str,
    features: Names,
    fit_intercept: bool,
    level: float,
    sampling: bool,
    design_effect: float | None,
    missing: MissingAs,
    tails: Tails,
) -> tuple[MomentLaw, Places, int, tuple[str, ...]]:
    """Features and the target, their law, and what levels have no coefficient."""
    require_release(release)
    columns = release.restored_features
    goals = find_features(columns, target)
    if len(goals) != 1:
        raise InputError(f"{target!r} stands for {len(goals)} features; name one of them.")
    chosen = predictors(columns, goals, features, weights_column(release))
    used = np.append(chosen, goals)
    law = moment_law(release, used, level, sampling, design_effect, missing, tails)
    references: tuple[str, ...] = ()
    if fit_intercept:
        require_intercept(release)
        _, references = without_references(release, chosen)
    return law, chosen, int(goals[0]), references


def _hides(release: Release, chosen: Places, goal: int, at_bounds: bool) -> str:
    """Why coefficients may be anything, and what to do."""
    if rare := told_of_rare_pairs(release, np.append(chosen, goal)):
        return f"{rare} {WITHOUT_ONE}"
    found = verdicts_of(release, chosen)
    hidden = [each.name for each in found if each.hidden]
    if not hidden and at_bounds:
        return (
            "The noise, or few rows at the bounds, may hide a direction of the features. Name "
            "fewer of them, or leave out tails='bounded'."
        )
    if not hidden:
        return (
            "The noise may hide a direction of the features. Name fewer of them, or use a larger "
            "alpha."
        )
    return (
        f"The noise hides the spread of {few_of(hidden, FEATURES_NAMED)}. This makes other "
        f"intervals infinite too. Name the features without them{_levels_left(found)}."
    )


def _levels_left(found: Sequence[ColumnVerdict]) -> str:
    """Which levels to name in place of columns of which the noise hides some."""
    told = ""
    for source in dict.fromkeys(each.source for each in found if each.hidden):
        left = [each.name for each in found if each.source == source and not each.hidden]
        told += f"; for {source} name {few_of(left, FEATURES_NAMED)}" if len(left) > 1 else ""
    return told


def _require_pairs(release: Release, places: Places) -> None:
    """Refuse features of which too few rows have both."""
    if rare := told_of_rare_pairs(release, places):
        raise ReleaseError(f"{rare} {WITHOUT_ONE}")


def _untold(law: MomentLaw, places: Places) -> tuple[str, ...]:
    """Why means and variances may be anything within the bounds, if they may."""
    why = {UNTOLD: law.scaled.untold, HIDDEN_PRESENCE: law.hides_presence}
    notes = (f"{each}: means and variances may be anything within the bounds." for each in why)
    return tuple(n for n, of in zip(notes, why.values(), strict=True) if of[places + 1].any())


def _opened(
    release: Release,
    features: Names,
    level: float,
    sampling: bool,
    design_effect: float | None,
    missing: MissingAs,
    tails: Tails = "moments",
) -> tuple[MomentLaw, Places]:
    require_release(release)
    places = find_features(release.restored_features, features, weights_column(release))
    law = moment_law(release, places, level, sampling, design_effect, missing, tails)
    require_intercept(release)
    return law, places


def _table(
    what: str, law: MomentLaw, lines: Sequence[Interval], references: Names = None, *notes: str
) -> IntervalTable:
    notes += law.notes + tuple(f"Reference category: {name}." for name in references or ())
    # A table of coefficients ends its heading with the target.
    named = {what.removeprefix(_COEFFICIENTS), *(line.name for line in lines)}
    power = " squared" if what == "variances" else ""
    units = [f"{x.name} in {x.unit}{power}" for x in law.columns if x.unit and x.name in named]
    notes += (f"Units: {'; '.join(units)}.",) if units else ()
    return IntervalTable(what=what, level=law.level, rows=tuple(lines), notes=notes)
