"""Hold intervals in a table, and solve for the ratio of two noisy numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import expm1, hypot, inf, isnan, nan
from typing import Any

import numpy as np

from dpcov.markup import CELL, card, el, listing, name_of, shorten, visible
from dpcov.published.file.columns import INTERCEPT
from dpcov.published.linalg.symmetric import Array
from dpcov.published.plots import NAME_LENGTH, axes_or_new

# The variance of a - t b is p - 2 q t + r t**2, from numbers (p, q, r), or from arrays of several.
Triple = tuple[Any, Any, Any]
Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Interval:
    """An estimate, its limits, and what its standard error is made of."""

    name: str
    lower: float
    upper: float
    # NaN where the noise leaves none.
    estimate: float = nan
    # Standard errors, to first order, from which rows are in the table and from the noise.
    sampling_std: float = nan
    privacy_std: float = nan

    @property
    def std_error(self) -> float:
        """Both together."""
        return float(np.hypot(self.sampling_std, self.privacy_std))

    def scaled(self, factor: float, offset: float = 0.0) -> "Interval":
        """The interval of ``offset + factor * quantity``, with a positive factor."""
        lower, upper = offset + factor * self.lower, offset + factor * self.upper
        stds = factor * self.sampling_std, factor * self.privacy_std
        return Interval(self.name, lower, upper, offset + factor * self.estimate, *stds)

    def times_unsure(self, std: float, z: float, skew: float = 1.0) -> "Interval":
        """For the quantity times a factor of about one, whose logarithm has this deviation.

        Quantiles away from zero are ``skew`` times as far, and those toward it as much nearer.
        """
        # Away from zero, and toward it.
        away, toward = (
            abs(self.estimate) * abs(expm1(z * side * std)) for side in (skew, -1 / skew)
        )
        down, up = (toward, away) if self.estimate >= 0 else (away, toward)
        return self._widened(down, up, self.estimate * std)

    def plus_unsure(self, std: float, z: float) -> "Interval":
        """For the quantity plus an error of this deviation, unrelated to others."""
        return self._widened(z * std, z * std, std)

    def _widened(self, down: float, up: float, std: float) -> "Interval":
        if isnan(self.estimate) or not std:
            return self
        return replace(
            self,
            lower=self.estimate - hypot(self.estimate - self.lower, down),
            upper=self.estimate + hypot(self.upper - self.estimate, up),
            privacy_std=hypot(self.privacy_std, std),
        )

    def clipped(self, lowest: float, highest: float) -> "Interval":
        """The same within public limits; an estimate beyond them is moved to them."""
        ends = clip_ends(self.lower, self.upper, self.estimate, lowest, highest)
        lower, upper, estimate = ends.tolist()
        return replace(self, lower=lower, upper=upper, estimate=estimate)


def pair_name(first: str, second: str) -> str:
    """What the interval of a pair is called."""
    return f"{_whole(first)}, {_whole(second)}"


def _whole(name: str) -> str:
    """A name that can be told from two; quoted where it has itself what stands between them."""
    return repr(name) if ", " in name or name.startswith(("'", '"')) else name


COLUMNS = ("estimate", "lower", "upper", "std_error", "sampling_std", "privacy_std")


@dataclass(frozen=True, kw_only=True, eq=False)
class IntervalTable:
    """Intervals of several quantities, each at the same level.

    Attributes
    ----------
    estimate, lower, upper, std_error, sampling_std, privacy_std : (m,) float64
        Estimates before post-processing, limits, standard errors to first order, and their parts
        from sampling rows and from the noise.
    """

    what: str
    level: float
    rows: tuple[Interval, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What each line is about."""
        return tuple(row.name for row in self.rows)

    def __getattr__(self, name: str) -> Array:
        if name not in COLUMNS:
            raise AttributeError(name)
        return np.array([getattr(row, name) for row in self.rows], dtype=np.float64)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.rows)

    def __getitem__(self, name: str | tuple[str, str]) -> Interval:
        """The interval of this name; of a pair also by its two names, in either order."""
        two = name if isinstance(name, tuple) and len(name) == 2 else ()
        asked = (pair_name(*two), pair_name(*two[::-1])) if two else (name,)
        for row in self.rows:
            if row.name in asked:
                return row
        raise KeyError(f"There is no interval for {name!r}; names lists them.")

    def to_frame(self) -> Any:
        """As a pandas data frame, indexed by name."""
        import pandas as pd  # type: ignore[import-untyped]

        columns = {name: getattr(self, name) for name in COLUMNS}
        return pd.DataFrame(columns, index=list(self.names))

    def to_dict(self) -> dict[str, Any]:
        """As plain texts and numbers, for JSON."""
        rows = [
            {"name": row.name} | {column: float(getattr(row, column)) for column in COLUMNS}
            for row in self.rows
        ]
        return vars(self) | {"rows": rows}

    def _repr_html_(self) -> str:
        rows = [
            (name_of(row.name, CELL), *(f"{getattr(row, name):.5g}" for name in COLUMNS))
            for row in self.rows
        ]
        head = ("", *(name.replace("_", " ") for name in COLUMNS))
        made = listing(head, rows, f"{100 * self.level:g} % intervals")
        return card("Intervals", self.what, made, [el("p", said) for said in self.notes])

    def plot(self, axes: Any = None) -> Any:
        """Draw the intervals on matplotlib axes (new by default), and return the axes.

        One that is not bounded is a dotted line across.  The intercept of a regression, whose unit
        is another one, is left out.
        """
        rows = [row for row in self.rows if row.name != INTERCEPT] or list(self.rows)
        axes = axes_or_new(axes, 7.0, min(20.0, 1.4 + 0.3 * max(len(rows), 2)))
        bounded = [k for k, row in enumerate(rows) if np.isfinite([row.lower, row.upper]).all()]
        for place, row in enumerate(rows):
            if place in bounded:
                ends = row.lower, row.upper
                axes.plot(ends, [place, place], color="C0", linewidth=2, solid_capstyle="butt")
            else:
                # In shares of the width: from end to end, whatever the other lines need.
                axes.axhline(place, color="0.6", linestyle=":", linewidth=1.5)
        estimates = [rows[place].estimate for place in bounded]
        axes.plot(estimates, bounded, "o", color="C0", markersize=5)
        numbers = [x for place in bounded for x in (rows[place].lower, rows[place].upper)]
        # Whether an interval holds zero is what people look for, where zero is near.
        if numbers and min(numbers) <= 0.3 * max(numbers) and max(numbers) >= 0.3 * min(numbers):
            axes.axvline(0.0, color="0.5", linewidth=0.8)
        names = [shorten(row.name, 2 * NAME_LENGTH) for row in rows]
        axes.set_yticks(range(len(rows)), names, parse_math=False)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        hidden = "; dotted: not bounded" if len(bounded) < len(rows) else ""
        told = f"{100 * self.level:g} % intervals{hidden}"
        axes.set_xlabel(shorten(f"{self.what}, {told}", 90), parse_math=False)
        return axes

    def __str__(self) -> str:
        # Names come from a file that anybody may have written: none makes a line of its own.
        names = [*map(visible, self.names)]
        width = max(map(len, names), default=0)
        lines = [" " * width + "".join(f"{name:>14}" for name in COLUMNS)]
        for name, row in zip(names, self.rows, strict=True):
            cells = "".join(f"{getattr(row, column):>14.5g}" for column in COLUMNS)
            lines.append(f"{name:<{width}}{cells}")
        heading, *notes = map(visible, (self.what, *self.notes))
        return "\n".join([f"{heading}, {100 * self.level:g} % intervals", *lines, *notes])


def clip_ends(lower: Any, upper: Any, estimate: Any, lowest: float, highest: float) -> Array:
    """Limits and estimates within public limits, (3, ...)."""
    moved = np.clip(estimate, lowest, highest)
    # Noise that carries an estimate beyond what is possible would leave a very short interval,
    # so the interval is extended as far as the estimate is moved; it holds the estimate.
    shift = np.where(np.isfinite(estimate), moved - estimate, 0.0)
    lower = np.fmin(lower + np.minimum(shift, 0.0), moved)
    upper = np.fmax(upper + np.maximum(shift, 0.0), moved)
    ends = np.clip([lower, upper], lowest, highest)
    return np.array([*ends, moved])


def ratio_interval(
    name: str, point: Pair, sampling: Triple, privacy: Triple, reach: Pair
) -> Interval:
    """One of those of :func:`ratio_ends`."""
    return Interval(name, *ratio_ends(point, sampling, privacy, reach).tolist())


def ratio_ends(point: Pair, sampling: Triple, privacy: Triple, reach: Pair) -> Array:
    """All ratios t for which a - t b is not surprisingly far from zero (Fieller 1954).

    ``point`` has a and b, ``reach`` the quantile and the factor for the variances of the noise.
    Limits, from -inf to inf where b, which is positive, may be nothing but noise, estimates, and
    standard errors of both kinds: (5,), or (5, n) of n ratios in arrays.
    """
    (a, b), (z, factor) = map(np.asarray, point), reach
    p, q, r = (s + factor * w for s, w in zip(sampling, privacy, strict=True))
    # Where leading t² - 2 half t + constant <= 0.
    leading, half, constant = b * b - z * z * r, a * b - z * z * q, a * a - z * z * p
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(b > 0, a / b, nan)
        stds = (_root(v[0] - 2 * v[1] * t + v[2] * t**2) / b for v in (sampling, privacy))
        root = _root(half * half - leading * constant)
        ends = (half - root) / leading, (half + root) / leading
    # Otherwise the denominator may be zero, and nothing is excluded.
    bounded = (leading > 0) & (b > 0)
    lower, upper = (
        np.where(bounded, end, side) for end, side in zip(ends, (-inf, inf), strict=True)
    )
    return np.stack(np.broadcast_arrays(lower, upper, t, *stds))


def _root(value: Any) -> Array:
    return np.sqrt(np.where(np.isfinite(value), np.maximum(0.0, value), nan))
