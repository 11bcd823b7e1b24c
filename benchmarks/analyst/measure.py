"""Say how far what people read from a release is from what the table says."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.analyst.tables import Table
from dpcov import Release
from dpcov.analysis import IntervalTable, PrivateRidge, coefficient_intervals, correlation_intervals
from dpcov.errors import ReleaseError

Array = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Score:
    """Errors of one release, or averages over several.

    Parameters
    ----------
    rms, largest : float
        Root mean square and largest error of a correlation of different columns; an undefined one
        counts as zero.
    undefined : float
        Share of the correlations that are undefined.
    whitened : float
        Frobenius norm of C^-1/2 C' C^-1/2 - I over the root of the number of columns, where C is
        the covariance of the table, of the columns that it does not determine by others.
    coefficient : float
        Root mean square error of least-squares coefficients by ``PrivateRidge``, in units of their
        sampling standard errors; of tables of numbers alone, as ``finite`` is.
    r2 : float
        Of ``PrivateRidge`` on rows that were left out of the release.
    finite, width, covered : float
        Intervals for coefficients and correlations, of the table itself, at 95 %: share of those
        for coefficients that are finite, median width of those for correlations, and share of all
        that hold the truth.
    """

    rms: float
    largest: float
    undefined: float
    whitened: float
    coefficient: float
    r2: float
    finite: float
    width: float
    covered: float


class Correlations:
    """Correlations of a table, against which estimates are held."""

    def __init__(self, table: Table) -> None:
        self.values = values = table.encoded.corr().to_numpy()
        first, second = np.triu_indices(len(values), 1)
        sources = np.array(table.sources)
        # Pairs of levels of one column exclude each other, which nobody needs to be told.
        self.apart = (sources[first] != sources[second]) & np.isfinite(values[first, second])
        self.pairs = first[self.apart], second[self.apart]

    def errors(self, estimate: Array) -> dict[str, float]:
        """How far an estimate is off; an undefined correlation counts as zero."""
        found = estimate[self.pairs]
        errors = np.abs(np.nan_to_num(found) - self.values[self.pairs])
        return {
            "rms": float(np.sqrt(np.mean(errors**2))),
            "largest": float(errors.max()),
            "undefined": float(np.isnan(found).mean()),
        }


class Truth:
    """What the table says, computed once."""

    def __init__(self, table: Table) -> None:
        self.table, self.features, self.correlations = table, table.features, Correlations(table)
        frame = table.encoded
        values, root = np.linalg.eigh(self.correlations.values)
        kept = values > 1e-8 * values[-1]
        self.whitening = (root[:, kept] / np.sqrt(values[kept])).T / frame.std(ddof=0).to_numpy()
        numbers = not table.categories
        self.coefficients = self._least_squares(frame[self.features]) if numbers else None

    def _least_squares(self, features: pd.DataFrame) -> tuple[Array, Array]:
        x = np.column_stack([np.ones(len(features)), features])
        scale = np.abs(x).max(axis=0)
        y = self.table.encoded[self.table.target].to_numpy()
        b, *_ = np.linalg.lstsq(x / scale, y, rcond=None)
        residual = y - x / scale @ b
        inverse = np.linalg.pinv((x / scale).T @ (x / scale), hermitian=True)
        errors = np.sqrt(np.maximum(np.diag(inverse), 0) * residual.var() * 1.0)
        return (b / scale)[1:], (errors / scale)[1:]

    def score(self, release: Release, held_out: tuple[Release, pd.DataFrame]) -> Score:
        """Compare a release, and one of other rows than those held out."""
        try:
            covariance = self.whitening @ release.covariance_matrix() @ self.whitening.T
        except ReleaseError:
            covariance = np.zeros((len(self.whitening), len(self.whitening)))
        d = len(covariance)
        wrong = np.full(1, np.nan)
        if self.coefficients is not None:
            truth, standard_error = self.coefficients
            wrong = (self._model(release).coef_ - truth) / standard_error
        found, inside, finite, width = self._intervals(release)
        other, rows = held_out
        predicted = self._model(other).predict(rows[self.features])
        return Score(
            **self.correlations.errors(release.correlation_matrix()),
            whitened=float(np.linalg.norm(covariance - np.eye(d)) / np.sqrt(d)),
            coefficient=float(np.sqrt(np.mean(wrong**2))),
            r2=r2(rows[self.table.target].to_numpy(), predicted),
            finite=finite,
            width=width,
            covered=inside / found,
        )

    def _model(self, release: Release) -> PrivateRidge:
        return PrivateRidge.from_release(release, target=self.table.target, features=self.features)

    def _intervals(self, release: Release) -> tuple[int, int, float, float]:
        lines, truth = correlation_intervals(release, sampling=False), self.correlations
        values, apart = truth.values[truth.pairs], truth.apart
        inside = (lines.lower[apart] <= values) & (values <= lines.upper[apart])
        width = float(np.median(lines.upper - lines.lower))
        if self.coefficients is None:
            return len(inside), int(inside.sum()), float("nan"), width
        fit = coefficient_intervals(release, self.table.target, self.features, sampling=False)
        exact = dict(zip(self.features, self.coefficients[0], strict=True))
        rows = [row for row in fit.rows if row.name in exact]
        held = sum(row.lower <= exact[row.name] <= row.upper for row in rows)
        finite = float(np.mean([np.isfinite(row.upper - row.lower) for row in rows]))
        return len(inside) + len(rows), int(inside.sum()) + held, finite, width


def held(found: IntervalTable, truth: Array, chosen: Array | slice = slice(None)) -> float:
    """Share of the chosen intervals that hold the truth."""
    lower, upper = found.lower[chosen], found.upper[chosen]
    return float(np.mean((lower <= truth) & (truth <= upper)))


def r2(y: Array, predicted: Array) -> float:
    """Share of the variance that predictions explain."""
    return float(1 - np.mean((y - predicted) ** 2) / y.var())


def average(scores: list[Score]) -> Score:
    """Mean of every field."""
    return Score(
        **{name: float(np.mean([vars(s)[name] for s in scores])) for name in vars(scores[0])}
    )
