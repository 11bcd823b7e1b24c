"""How far one person can move each statistic of rows in the unit ball.

Contract: every number is an upper bound that ``blocks.md`` proves, rounded up.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpcov.mechanisms.base import Problem
from dpcov.privacy.convert import sqrt_up


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds on the l1 norm and on the squared l2 norm of a statistic's change."""

    l1: Fraction
    l2_squared: Fraction


def scalar(problem: Problem) -> Sensitivity:
    """Of the trace, a count of rows, or any sum over rows of one number in [0, 1]."""
    k = Fraction(problem.rows_per_person)
    return Sensitivity(l1=k, l2_squared=k**2)


def eigenvalues(problem: Problem) -> Sensitivity:
    """Of the sorted eigenvalues of the sscp; also its nuclear (l1) and Frobenius (l2) norm."""
    k, moved = Fraction(problem.rows_per_person), _moved_rows(problem)
    return Sensitivity(l1=moved * k, l2_squared=moved * k**2)


def upper_triangle(problem: Problem) -> Sensitivity:
    """Of the entries on and above the diagonal of the sscp."""
    k, d = Fraction(problem.rows_per_person), problem.n_features
    l1 = Fraction(d + 1, 2)
    if problem.neighbors == "replace-one":
        # laplace.md, Lemma 2: attained for d = 1 and every even d.
        l1 = Fraction(1) if d == 1 else sqrt_up(Fraction(d**2, 2) + d + 1)
    return Sensitivity(l1=k * l1, l2_squared=_moved_rows(problem) * k**2)


def _moved_rows(problem: Problem) -> int:
    # Replacing takes an old row away and adds a new one.
    return 2 if problem.neighbors == "replace-one" else 1
