"""Give intervals for any function of a covariance, by simulation of sampling and noise.

The covariance of a release is simulated again and again (a parametric bootstrap, Ferrando, Wang and
Sheldon 2022), and the function varies among these as much as it errs (docs/inference.md).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf, nan, sqrt
from numbers import Real
from typing import Any

import numpy as np

from dpcov.analysis.intervals.eigenvalues import INFLATION, Spectrum
from dpcov.analysis.intervals.table import Interval
from dpcov.analysis.problems import InputError
from dpcov.published.linalg.project import clip_eigenvalues
from dpcov.published.linalg.symmetric import Array
from dpcov.published.words.numbers import WITHIN

# A number of a covariance with names, a pandas frame, or several with names of their own.
Function = Callable[[Any], Any]

# Part of the simulations that may be covariances of no table, or leave a function undefined.
UNDEFINED = 0.02
# Least eigenvalue of correlations that some table has.
LEAST = 1e-9


def function_lines(
    seen: Array,
    spectra: Iterable[Spectrum],
    units: Array,
    names: list[str],
    function: Function,
    z: float,
) -> list[Interval]:
    """A line for every number of a function; without ends where noise may leave it undefined.

    ``seen``, (p, p), is the covariance of columns whose variances are about one, and ``spectra``
    are simulations of it; ``units``, (p,), are those of the columns.
    """
    import pandas as pd  # type: ignore[import-untyped]

    scale = np.outer(units, units)

    def value(correlations: Array) -> dict[str, float]:
        covariance = pd.DataFrame(correlations * scale, index=names, columns=names)
        return _named(function, function(covariance))

    def values(simulated: Array) -> Array:
        found = np.full((len(simulated), len(estimates)), nan)
        for place in np.flatnonzero(np.linalg.eigvalsh(simulated)[:, 0] > LEAST):
            with suppress(ArithmeticError, ValueError):
                made = value(simulated[place])
                found[place] = [made.get(name, nan) for name in estimates]
        return found

    # Its own mistakes are told here.
    estimates = value(clip_eigenvalues(seen, LEAST))
    noisy = ((seen + each.noise, each.sampled) for each in spectra)
    found = [(values(noise), values(noise + sampled)) for noise, sampled in noisy]
    privacy, both = map(np.concatenate, zip(*found, strict=True))
    if np.linalg.eigvalsh(seen)[0] <= LEAST:
        both[:] = nan
    return [
        _line(name, estimate, privacy[:, place], both[:, place], z)
        for place, (name, estimate) in enumerate(estimates.items())
    ]


def _line(name: str, estimate: float, privacy: Array, both: Array, z: float) -> Interval:
    known = [each[np.isfinite(each)] for each in (both, privacy)]
    undefined = 1 - min(map(len, known)) / len(both)
    if not np.isfinite(estimate) or undefined > UNDEFINED:
        return Interval(name, -inf, inf, estimate, inf, inf)
    return line_around(name, estimate, known[0], known[1], z)


def line_around(name: str, estimate: float, both: Array, privacy: Array, z: float) -> Interval:
    """An interval as long as simulations vary, with sampling and without it."""
    total, noise = (INFLATION * _reach(each) / WITHIN for each in (both, privacy))
    sampling = sqrt(max(0.0, total**2 - noise**2))
    return Interval(name, estimate - z * total, estimate + z * total, estimate, sampling, noise)


def near(found: Array) -> Array:
    """Simulations, of which those beyond 95 of 100 are moved to where these end."""
    middle, reach = np.median(found), _reach(found)
    return np.clip(found, middle - reach, middle + reach)


def _reach(found: Array) -> float:
    """How far from the middle 95 of 100 simulations are at most."""
    # Few that noise makes nearly singular are so far away that a deviation is theirs alone.
    return float(np.quantile(np.abs(found - np.median(found)), 0.95))


def _named(function: Function, found: Any) -> dict[str, float]:
    """What a function gives, with names."""
    if hasattr(found, "items"):
        return {str(name): _number(each) for name, each in found.items()}
    name = getattr(function, "__name__", "")
    return {name if name.isidentifier() else "value": _number(found)}


def _number(found: Any) -> float:
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()
    if not isinstance(found, Real):
        raise InputError(
            "The function gives something that is no real number. Give a number, or several with "
            "names: a mapping, or a pandas Series."
        )
    return float(found)
