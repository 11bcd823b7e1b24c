"""A table of intervals, and the one way they are solved for.

Contract: public numbers only; an interval that the data cannot bound is as wide as what is known without
data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.errors import UsageError

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One line: an estimate, its limits, and what its standard error is made of.

    Parameters
    ----------
    name : str
    estimate, lower, upper : float
        ``estimate`` is NaN where the noise leaves none.
    sampling_std, privacy_std : float
        Standard errors, to first order, from which rows are in the table and from the noise.
    """

    name: str
    estimate: float
    lower: float
    upper: float
    sampling_std: float
    privacy_std: float

    @property
    def std_error(self) -> float:
        """Both together."""
        return float(np.hypot(self.sampling_std, self.privacy_std))

    def scaled(self, factor: float, offset: float = 0.0) -> "Interval":
        """The interval of ``offset + factor * quantity``, with a positive factor."""
        return Interval(
            name=self.name,
            estimate=offset + factor * self.estimate,
            lower=offset + factor * self.lower,
            upper=offset + factor * self.upper,
            sampling_std=factor * self.sampling_std,
            privacy_std=factor * self.privacy_std,
        )

    def clipped(self, lowest: float, highest: float) -> "Interval":
        """The same within public limits; an estimate beyond them is moved to them, its interval extended as far.

        Noise that carries an estimate far beyond what is possible would otherwise leave a very short interval.
        """
        estimate = float(np.clip(self.estimate, lowest, highest))
        shift = estimate - self.estimate if np.isfinite(self.estimate) else 0.0
        return Interval(
            name=self.name,
            estimate=estimate,
            lower=float(np.clip(self.lower + min(shift, 0.0), lowest, highest)),
            upper=float(np.clip(self.upper + max(shift, 0.0), lowest, highest)),
            sampling_std=self.sampling_std,
            privacy_std=self.privacy_std,
        )


COLUMNS = ("estimate", "lower", "upper", "std_error", "sampling_std", "privacy_std")


@dataclass(frozen=True, kw_only=True, eq=False)
class IntervalTable:
    """Intervals of several quantities, each at the same level.

    ``estimate``, ``lower``, ``upper``, ``std_error``, ``sampling_std`` and ``privacy_std`` are (m,) float64.

    Parameters
    ----------
    what : str
    level : float
    rows : tuple of Interval
    notes : tuple of str
        What a reader should know, such as the reference category of a contrast.
    """

    what: str
    level: float
    rows: tuple[Interval, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What each line is about."""
        return tuple(row.name for row in self.rows)

    @property
    def estimate(self) -> Array:
        """Estimates, before post-processing."""
        return self._column("estimate")

    @property
    def lower(self) -> Array:
        """Lower limits."""
        return self._column("lower")

    @property
    def upper(self) -> Array:
        """Upper limits."""
        return self._column("upper")

    @property
    def std_error(self) -> Array:
        """Standard errors, to first order."""
        return self._column("std_error")

    @property
    def sampling_std(self) -> Array:
        """Their part from sampling rows."""
        return self._column("sampling_std")

    @property
    def privacy_std(self) -> Array:
        """Their part from the noise."""
        return self._column("privacy_std")

    def _column(self, name: str) -> Array:
        return np.array([getattr(row, name) for row in self.rows], dtype=np.float64)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Interval:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"There is no interval for {name!r}; names lists them.")

    def to_frame(self) -> Any:
        """As a pandas data frame, indexed by name."""
        try:
            import pandas as pd  # type: ignore[import-untyped]
        except ImportError:
            raise UsageError(
                "Data frames need pandas. Install it: pip install 'dpcov[analysis]'"
            ) from None
        return pd.DataFrame({name: self._column(name) for name in COLUMNS}, index=list(self.names))

    def __str__(self) -> str:
        width = max([len(name) for name in self.names], default=0)
        lines = [f"{self.what}, {100 * self.level:g} % intervals"]
        lines.append(" " * width + "".join(f"{name:>14}" for name in COLUMNS))
        lines += [
            f"{row.name:<{width}}" + "".join(f"{getattr(row, name):>14.5g}" for name in COLUMNS)
            for row in self.rows
        ]
        return "\n".join([*lines, *self.notes])


def ratio_interval(
    name: str,
    point: tuple[float, float],
    sampling: tuple[float, float, float],
    privacy: tuple[float, float, float],
    *,
    reach: tuple[float, float],
) -> Interval:
    """All ratios t for which a - t b is not surprisingly far from zero (Fieller 1954).

    Parameters
    ----------
    name : str
    point : (a, b)
        Estimates of numerator and denominator, the latter of something positive.
    sampling, privacy : (p, q, r)
        The variance of a - t b from either source is p - 2 q t + r t**2.
    reach : (z, factor)
        Quantile, and factor for the variances of the noise.

    Returns
    -------
    Interval
        From -inf to inf where the denominator may be zero.
    """
    (a, b), (z, factor) = point, reach
    p, q, r = (s + factor * w for s, w in zip(sampling, privacy, strict=True))
    lower, upper = solve_quadratic(b * b - z * z * r, a * b - z * z * q, a * a - z * z * p)
    if b <= 0:
        lower, upper = -inf, inf
    estimate = a / b if b > 0 else float("nan")
    stds = [
        _root(v[0] - 2 * v[1] * estimate + v[2] * estimate**2) / abs(b or 1.0)
        for v in (sampling, privacy)
    ]
    return Interval(
        name=name,
        estimate=estimate,
        lower=lower,
        upper=upper,
        sampling_std=stds[0],
        privacy_std=stds[1],
    )


def solve_quadratic(leading: float, half: float, constant: float) -> tuple[float, float]:
    """The interval where leading t**2 - 2 half t + constant <= 0; everything where that is not bounded."""
    if not leading > 0:
        return -inf, inf
    root = _root(half * half - leading * constant)
    return (half - root) / leading, (half + root) / leading


def _root(value: float) -> float:
    return sqrt(max(0.0, value)) if np.isfinite(value) else float("nan")


def table(
    what: str, level: float, rows: Sequence[Interval], notes: Sequence[str] = ()
) -> IntervalTable:
    """Put lines together."""
    return IntervalTable(what=what, level=level, rows=tuple(rows), notes=tuple(notes))
