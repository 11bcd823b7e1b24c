"""Find the first query above a threshold at the price of one; by that a radius, and a clip norm.

Guarantee : epsilon-DP for any number of queries (so epsilon**2 / 2-zCDP), given what was released
    before (radius and trace); under both relations.  Numerics : idealized.
    Public inputs : threshold, radii, candidates, epsilon, beta, sensitivity.  Private input : the
    answers, that is the number of rows in each norm shell.
    Proof : blocks.md, Theorems 3 to 5.
References : Dwork, Roth (2014), section 3.6; Lyu, Su, Li (2017); Dong, Yi (2023), Universal private
    estimators; Dong, Liang, Yi (2022), section 5.2, Algorithm 3, Lemmas 5 and 9; their queries
    change by r**2 <= 1 at most and are divided by it here: less noise.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from dpcov.data.exact.moments import Moments, StratumMoments
from dpcov.data.histograms import Counts
from dpcov.mechanisms.blocks.additive_noise import laplaces
from dpcov.noise.entropy import Entropy
from dpcov.published.linalg.symmetric import Array

# ``balance``: the last norm before a bound on the bias exceeds the noise (the paper). ``marginal``:
# the last norm before halving it adds more bias than it takes off noise; its queries count rows,
# each with sensitivity 1.
Search = Literal["balance", "marginal"]

# Bias relative to the bound by dyadic counts, in ``marginal``: rows lie inside their shells, and
# bias and noise add up as squares.  Fitted to the papers' synthetic tables; no guarantee needs it.
EXPECTED_BIAS = 0.55


def sparse_vector(
    queries: Iterable[float],
    *,
    threshold: float,
    epsilon: Fraction | float,
    sensitivity: float = 1.0,
    entropy: Entropy,
) -> int | None:
    """Find the first query whose answer is about the threshold or more (AboveThreshold).

    Exact **sensitive** answers are read one by one until the search ends; they may be endless.
    The whole search costs ``epsilon`` if all answers move one way when the table changes, by
    ``sensitivity`` at most.  Returns the query's position, from 0, or None.
    """
    scale = 2.0 * sensitivity / float(epsilon)
    # One draw serves all comparisons: their number costs nothing.
    noisy_threshold = threshold + scale * float(laplaces(1, entropy)[0])
    for position, answer in enumerate(queries):
        if answer + scale * float(laplaces(1, entropy)[0]) >= noisy_threshold:
            return position
    return None


def private_radius(
    outliers: Sequence[int],
    *,
    epsilon: Fraction | float,
    beta: float,
    rows_per_person: int,
    entropy: Entropy,
) -> int:
    """Choose among increasing radii, each twice the one before, by doubling from the smallest.

    ``outliers`` is the **sensitive** number of rows longer than each radius; the last radius is
    public and holds all rows.  Returns a position: with probability at least 1 - beta / 2 no radius
    before it holds all rows, and the radius is at most twice too large.
    """
    # The noise of one comparison, so that a radius without outliers is rarely passed over.
    patience = 4.0 * rows_per_person / float(epsilon) * math.log(2.0 / beta)
    found = sparse_vector(
        (-float(count) for count in outliers[:-1]),
        threshold=-patience,
        epsilon=epsilon,
        sensitivity=rows_per_person,
        entropy=entropy,
    )
    return len(outliers) - 1 if found is None else found


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Public clip norms 2**-shell, largest first, with the error that noise would cause at each.

    Errors are in Frobenius norm on the sscp, for noise on the matrix and on eigenvalues and
    eigenvectors.  All rows were clipped to the first norm already.
    """

    shells: range
    together: Array
    separately: Array

    @property
    def noise(self) -> Array:
        """Error of the better of the two."""
        return np.minimum(self.together, self.separately)


class ClipChoice(NamedTuple):
    """The clip norm 2**-shell, and whether eigenvalues and eigenvectors are released separately."""

    shell: int
    separately: bool


def choose_clip(
    counts: Counts,
    candidates: Candidates,
    *,
    search: Search,
    epsilon: Fraction | float,
    rows_per_person: int,
    entropy: Entropy,
) -> ClipChoice:
    """Choose a clip norm, and the better mechanism for it, at the cost of ``epsilon``.

    ``counts`` is the **sensitive** number of rows in each norm shell.
    """
    queries = _balance_queries if search == "balance" else _marginal_queries
    found = sparse_vector(
        queries(counts, candidates),
        threshold=0.0,
        epsilon=epsilon,
        sensitivity=rows_per_person,
        entropy=entropy,
    )
    # The query found is the first bad one, so the norm before it is taken.
    position = len(candidates.shells) - 1 if found is None else max(0, found - 1)
    better = bool(candidates.separately[position] < candidates.together[position])
    return ClipChoice(shell=candidates.shells[position], separately=better)


def clipping_bias(counts: Counts, first: int, shell: int) -> float:
    """Bound in Frobenius norm what clipping from 2**-first to 2**-shell takes; **sensitive**."""
    largest = 4.0 ** -np.maximum(np.arange(shell), first)
    return float(counts[:shell] @ (largest - 4.0**-shell))


def _balance_queries(counts: Counts, candidates: Candidates) -> Iterator[float]:
    first = candidates.shells[0]
    for shell, noise in zip(candidates.shells, candidates.noise, strict=True):
        yield (clipping_bias(counts, first, shell) - noise) * 4.0**first


def _marginal_queries(counts: Counts, candidates: Candidates) -> Iterator[float]:
    # Longer rows, less the number for which clipping them further is as bad as the noise.
    yield -np.inf
    saved = -np.diff(candidates.noise)
    for shell, less in zip(candidates.shells[1:], saved, strict=True):
        added_per_row = EXPECTED_BIAS * 3.0 * 4.0**-shell
        yield float(counts[:shell].sum()) - less / added_per_row


# What clipping to any dyadic norm would give, equal to gathering the rows again after clipping, up
# to the lattice, and **sensitive**: shell s holds the rows with norm in (2**-(s+1), 2**-s];
# clipped to 2**-t they add Σ_{s>=t} 4**-s S_s + 4**-t Σ_{s<t} N_s, with S_s in units of its shell
# and N_s of the rows divided by their own norm.


def shell_counts(moments: Moments) -> Counts:
    """Rows in each shell, largest radius first."""
    return np.array([stratum.n_rows for stratum in moments.strata], dtype=np.int64)


def outlier_counts(counts: Counts) -> Counts:
    """Rows longer than 2**-t, for each shell t."""
    return np.concatenate([[0], np.cumsum(counts[:-1])])


def noisy_traces(shells: Iterable[StratumMoments], noise: Iterable[int]) -> list[int]:
    """Add noise to the trace of every shell, in the shell's lattice units."""
    # Python's integers: a trace may leave 64 bits.
    return [shell.sscp.trace() + int(z) for shell, z in zip(shells, noise, strict=True)]


def clipped_trace(moments: Moments, shell: int) -> float:
    """Trace of the sscp of the rows clipped to 2**-shell, for rows in the unit ball."""
    unit = 4.0**-moments.spec.bits
    inside = sum(
        stratum.sscp.trace() * unit * 4.0 ** -(shell + below)
        for below, stratum in enumerate(moments.strata[shell:])
    )
    return inside + 4.0**-shell * sum(stratum.n_rows for stratum in moments.strata[:shell])


def clipped_sscp(moments: Moments, shell: int) -> Array:
    """Sscp of the rows clipped to 2**-shell and divided by it: rows in the unit ball again."""
    total = np.zeros((moments.n_features, moments.n_features))
    for index, stratum in enumerate(moments.strata):
        # Most shells of a table are empty.
        if not stratum.n_rows:
            continue
        if index >= shell:
            total += stratum.sscp.to_float() * 4.0 ** (shell - index)
        else:
            assert stratum.normalized is not None
            total += stratum.normalized.to_float()
    return total * 4.0**-moments.spec.bits
