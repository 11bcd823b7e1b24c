"""Tables, methods and measures that only claims in the papers' text need.

Contract: as in ``tables``, ``baselines`` and ``metrics``.  They are apart from these because stored
draws of the figures depend on the code there.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from benchmarks.papers.figure import Table
from benchmarks.papers.synthetic import synthetic_rows
from benchmarks.papers.tables import Data
from dpcov import Budget
from dpcov.noise.continuous import exponentials, normals, uniforms
from dpcov.noise.eigenvectors import envelope_width, sample_eigenvectors
from dpcov.noise.entropy import Entropy

Array = NDArray[np.float64]
BATCH = 256
"""How many directions are proposed at a time, until one is accepted."""


def shells(generator: np.random.Generator, *, d: int, directions: int, rows: str) -> Data:
    """Rows of given norms, ``"4 of 1, 60 of 0.5"``, in random directions of a random subspace."""
    parts = [part.split(" of ") for part in rows.split(", ")]
    norms = np.concatenate([np.full(int(count), float(norm)) for count, norm in parts])
    basis = np.linalg.qr(generator.standard_normal((d, directions)))[0]
    inside = generator.standard_normal((len(norms), directions))
    inside *= (norms / np.linalg.norm(inside, axis=1))[:, None]
    return Data(rows=inside @ basis.T)


def unit_rows(generator: np.random.Generator, *, n: int, d: int) -> Data:
    """The synthetic rows of norm 1 of the figures."""
    return Data(rows=synthetic_rows(n, d, 1, generator))


LOADERS: dict[str, Callable[..., Data]] = {"shells": shells, "unit rows": unit_rows}


def load(table: Table, generator: np.random.Generator) -> Data:
    return LOADERS[table.kind](generator, **dict(table.parameters))


def low_rank(data: Data, budget: Budget, entropy: Entropy, *, k: int) -> Array:
    """Algorithm 1 of Amin et al. stopped after k directions, which share half of epsilon."""
    n, epsilon = len(data.rows), _epsilon(budget)
    sscp = n * data.second_moment
    noise = exponentials(k, entropy) - exponentials(k, entropy)
    values = np.clip(np.linalg.eigvalsh(sscp)[::-1][:k] + 4 / epsilon * noise, 0, n)
    directions = sample_eigenvectors(sscp, [epsilon / (8 * k)] * k, entropy)[:, :k]
    return (directions * values) @ directions.T / n


def proposals(data: Data, budget: Budget, entropy: Entropy) -> Array:
    """How many directions the sampler of Kent et al. (2018) proposes for each one it accepts.

    Algorithm 1 of Amin et al. with uniform splitting; every direction has an envelope of its own.
    Shape (d - 1,).
    """
    n, d = data.rows.shape
    exponent = _epsilon(budget) / (8 * d)
    left, counts = n * data.second_moment, []
    for _ in range(d - 1):
        values, vectors = np.linalg.eigh(left)
        count, direction = _first_accepted(exponent * (values[-1] - values), entropy)
        rest = null_space((vectors @ direction)[None])
        left = rest.T @ left @ rest
        counts.append(count)
    return np.array(counts, dtype=np.float64)


def _first_accepted(falls: Array, entropy: Entropy) -> tuple[int, Array]:
    """Number of proposals until one is accepted, and that one: density exp(-u' diag(falls) u)."""
    q, b = len(falls), envelope_width(falls)
    stretch, most = 1 + 2 * falls / b, (b - q) / 2 + q / 2 * log(q / b)
    tried = 0
    while True:
        points = normals((BATCH, q), entropy) / np.sqrt(stretch)
        points /= np.linalg.norm(points, axis=1)[:, None]
        squares = points**2
        accepted = np.log(uniforms(BATCH, entropy)) < (
            q / 2 * np.log(squares @ stretch) - squares @ falls - most
        )
        if accepted.any():
            first = int(accepted.argmax())
            return tried + first + 1, points[first]
        tried += BATCH


def _epsilon(budget: Budget) -> float:
    assert budget.epsilon is not None
    return float(budget.epsilon)


METHODS: dict[str, Callable[..., Array]] = {"low rank": low_rank, "proposals": proposals}
"""Called with (data, budget, entropy, **options)."""


def best_low_rank(estimate: Array, data: Data, k: float) -> float:
    """Frobenius distance from the best matrix of rank k."""
    values, vectors = np.linalg.eigh(data.second_moment)
    values[: len(values) - int(k)] = 0.0
    return float(np.linalg.norm(estimate - (vectors * values) @ vectors.T))


def sampling_bound(estimate: Array, data: Data, k: float) -> float:
    """Theorem 2 of Amin et al. for k directions and epsilon = 1, with the constant 1.

    sqrt(sum of d lambda_i log(lambda_1) / epsilon_i) + sqrt(d) / epsilon_0, over n; the logarithm
    is that of Lemma 5 and section 3.1.
    """
    (n, d), part = data.rows.shape, 0.5 / k
    largest = np.linalg.eigvalsh(n * data.second_moment)[::-1][: int(k)]
    return (sqrt(d * largest.sum() * log(largest[0]) / part) + sqrt(d) / 0.5) / n


def over_largest(estimate: Array, data: Data) -> float:
    """Frobenius error divided by the largest eigenvalue."""
    error = np.linalg.norm(estimate - data.second_moment)
    return float(error / np.linalg.norm(data.second_moment, 2))


METRICS: dict[str, Callable[..., float]] = {
    "rank": best_low_rank,
    "rank bound": sampling_bound,
    "over largest": over_largest,
    "mean over d": lambda counts, data: float(np.mean(counts)) / data.rows.shape[1],
    "median over d": lambda counts, data: float(np.median(counts)) / data.rows.shape[1],
}


def measure(metric: str, outcome: Array, data: Data) -> float:
    """As :func:`benchmarks.papers.metrics.measure`, for the measures here."""
    name, _, argument = metric.partition(":")
    return METRICS[name](outcome, data, *((float(argument),) if argument else ()))
