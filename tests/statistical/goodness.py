"""The statistical assertions of all tests, with declared size and power.

Each assertion rejects a correct sampler with probability ``alpha`` at most (the chi-square tests:
approximately).  Beside it stands a function that returns how many samples reject a wrong law, say
one whose scale is off by ten percent, with probability POWER at least.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

ALPHA = 1e-9
POWER = 1.0 - 1e-6
SCALE_ERROR = 0.1
FEWEST_PER_BIN = 100

Cdf = Callable[[np.ndarray], np.ndarray]


class GoodnessError(AssertionError):
    """A sample that the claimed law produces with probability below alpha."""


def equal_bins(cdf: Cdf, bins: int = 20) -> np.ndarray:
    """Return increasing integers x_1 < x_2 < ..., between which the law puts about 1/bins each."""
    reach = 1
    while cdf(np.array([-reach]))[0] > 0.5 / bins or cdf(np.array([reach]))[0] < 1.0 - 0.5 / bins:
        reach *= 2
    low = np.full(bins - 1, -reach)
    high = np.full(bins - 1, reach)
    targets = np.arange(1, bins) / bins
    while np.any(high - low > 1):
        middle = (low + high) // 2
        reached = cdf(middle) >= targets
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.unique(high)


def bin_probabilities(cdf: Cdf, edges: np.ndarray) -> np.ndarray:
    """Return P(x <= e_1), P(e_1 < x <= e_2), ..., P(x > e_last)."""
    return np.diff(np.concatenate([[0.0], cdf(edges), [1.0]]))


def bin_counts(samples: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(edges, samples, side="left"), minlength=edges.size + 1)


def assert_discrete_law(samples, cdf: Cdf, *, edges=None, alpha: float = ALPHA) -> None:
    """Chi-square test of integers against P(X <= x) on the bins that ``edges`` separates."""
    edges = equal_bins(cdf) if edges is None else edges
    expected = samples.size * bin_probabilities(cdf, edges)
    if expected.min() < FEWEST_PER_BIN:
        found = f"A bin expects {expected.min():.3g} samples only"
        raise ValueError(f"{found}; use fewer bins or more samples.")
    statistic = np.sum((bin_counts(samples, edges) - expected) ** 2 / expected)
    finding = f"chi-square {statistic:.1f} on {edges.size} bins"
    _require(stats.chi2.sf(statistic, edges.size), alpha, finding)


def discrete_law_samples(cdf: Cdf, wrong: Sequence[Cdf], *, edges=None) -> int:
    """Return the sample size for :func:`assert_discrete_law` to reject all ``wrong`` laws."""
    edges = equal_bins(cdf) if edges is None else edges
    claimed = bin_probabilities(cdf, edges)
    threshold = stats.chi2.isf(ALPHA, edges.size)
    distances = [
        np.sum((bin_probabilities(other, edges) - claimed) ** 2 / claimed) for other in wrong
    ]

    def rejects(size):
        return stats.ncx2.sf(threshold, edges.size, size * min(distances))

    fewest = int(np.ceil(FEWEST_PER_BIN / claimed.min()))
    return max(fewest, _smallest_size(rejects))


def assert_same_law(first, second, *, bins: int = 20, alpha: float = ALPHA) -> None:
    """Two-sample chi-square test on bins that hold equally many of both samples together."""
    both = np.concatenate([first, second])
    edges = np.unique(np.quantile(both, np.arange(1, bins) / bins, method="inverted_cdf"))
    table = np.stack([bin_counts(first, edges), bin_counts(second, edges)])
    table = table[:, table.sum(axis=0) > 0]
    result = stats.chi2_contingency(table, correction=False)
    finding = f"two-sample chi-square {result.statistic:.1f} on {table.shape[1]} bins"
    _require(result.pvalue, alpha, finding)


def assert_mean_square(
    samples, expected_variance: float, *, kurtosis: float = 3.0, alpha: float = ALPHA
) -> None:
    """Two-sided test of E x**2; exact for normal samples, else by a gamma law of its moments."""
    freedom = _mean_square_freedom(samples.size, kurtosis)
    ratio = float(np.mean(np.square(samples / np.sqrt(expected_variance))))
    law = stats.chi2(freedom)
    significance = 2.0 * min(law.cdf(freedom * ratio), law.sf(freedom * ratio))
    _require(significance, alpha, f"mean square {ratio:.4f} times the expected one")


def mean_square_samples(*, kurtosis: float = 3.0, scale_error: float = SCALE_ERROR) -> int:
    """Return the sample size for :func:`assert_mean_square`."""

    def rejects(size):
        law = stats.chi2(_mean_square_freedom(size, kurtosis))
        low, high = law.ppf(ALPHA / 2), law.isf(ALPHA / 2)
        return min(law.cdf(low / (1 - scale_error) ** 2), law.sf(high / (1 + scale_error) ** 2))

    return _smallest_size(rejects)


def assert_tail(samples, threshold: float, probability: float, *, alpha: float = ALPHA) -> None:
    """Two-sided exact binomial test of P(abs(x) > threshold)."""
    count = int(np.count_nonzero(np.abs(samples) > threshold))
    law = stats.binom(samples.size, probability)
    significance = min(1.0, 2.0 * min(law.cdf(count), law.sf(count - 1)))
    expected = f"{samples.size * probability:.1f} expected"
    _require(significance, alpha, f"{count} samples in the tail, {expected}")


def tail_samples(probability: float, actual: tuple[float, ...]) -> int:
    """Return the sample size for :func:`assert_tail` to reject each ``actual`` probability."""

    def rejects(size):
        law = stats.binom(size, probability)
        low, high = law.ppf(ALPHA / 2) - 1, law.isf(ALPHA / 2)
        return min(
            stats.binom.cdf(low, size, wrong)
            if wrong < probability
            else stats.binom.sf(high, size, wrong)
            for wrong in actual
        )

    return _smallest_size(rejects)


def assert_continuous_law(samples, cdf: Cdf, *, alpha: float = ALPHA) -> None:
    """Kolmogorov-Smirnov test, with the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart."""
    claimed = cdf(np.sort(samples))
    steps = np.arange(samples.size + 1) / samples.size
    distance = max(np.max(steps[1:] - claimed), np.max(claimed - steps[:-1]))
    significance = min(1.0, 2.0 * np.exp(-2.0 * samples.size * distance**2))
    _require(significance, alpha, f"Kolmogorov distance {distance:.4f}")


def continuous_law_samples(cdf: Cdf, grid, *, scale_error: float = SCALE_ERROR) -> int:
    """Return the size for :func:`assert_continuous_law`; cdfs are compared on ``grid``."""
    distance = min(
        np.max(np.abs(cdf(grid) - cdf(grid / factor)))
        for factor in (1.0 - scale_error, 1.0 + scale_error)
    )
    radii = np.sqrt(np.log(2.0 / ALPHA) / 2.0) + np.sqrt(np.log(2.0 / (1.0 - POWER)) / 2.0)
    return int(np.ceil((radii / distance) ** 2))


def _mean_square_freedom(size: int, kurtosis: float) -> float:
    return 2.0 * size / (kurtosis - 1.0)


def _smallest_size(rejects: Callable[[int], float]) -> int:
    """Return a size that rejects with probability POWER, at most two percent too large."""
    high = 100
    while rejects(high) < POWER:
        high *= 2
    low = high // 2
    while high - low > 0.02 * low:
        middle = (low + high) // 2
        low, high = (low, middle) if rejects(middle) >= POWER else (middle, high)
    return high


def _require(significance: float, alpha: float, finding: str) -> None:
    if not significance >= alpha:
        raise GoodnessError(f"{finding}: p = {significance:.2g} is below alpha = {alpha:.2g}")
