"""The promises a release can make, as frozen values with exact numbers.

Every number is a :class:`fractions.Fraction`: what the custodian typed is what is promised, with no binary
rounding in between.  Knows nothing of mechanisms, noise or data.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from dpcov.errors import BudgetError

Neighbors = Literal["replace-one", "add-remove-one"]
"""``replace-one``: one person's rows are exchanged, the number of rows is public (the papers' relation).
``add-remove-one``: one person's rows appear or vanish, the number of rows is private."""

Numerics = Literal["exact", "idealized"]
"""``exact``: the proof covers the computer's arithmetic.  ``idealized``: the proof assumes real numbers."""

NEIGHBORS: tuple[Neighbors, ...] = get_args(Neighbors)


@dataclass(frozen=True, kw_only=True)
class PureDP:
    """epsilon-differential privacy; with epsilon 0 the output does not depend on the table at all."""

    epsilon: Fraction

    def __str__(self) -> str:
        return f"({format_number(self.epsilon)})-DP"


@dataclass(frozen=True, kw_only=True)
class ZCDP:
    """rho-zero-concentrated differential privacy (Bun & Steinke 2016)."""

    rho: Fraction

    def __str__(self) -> str:
        return f"({format_number(self.rho)})-zCDP"


@dataclass(frozen=True, kw_only=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy."""

    epsilon: Fraction
    delta: Fraction

    def __str__(self) -> str:
        return f"({format_number(self.epsilon)}, {format_number(self.delta)})-DP"


Promise = PureDP | ZCDP | ApproxDP


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A promise together with whom it protects and under which arithmetic it was proven."""

    promise: Promise
    neighbors: Neighbors
    rows_per_person: int
    numerics: Numerics

    def __str__(self) -> str:
        unit = (
            "one row"
            if self.rows_per_person == 1
            else f"up to {self.rows_per_person} rows of one person"
        )
        return (
            f"{self.promise}, {self.neighbors} neighbors, unit: {unit}, numerics: {self.numerics}"
        )


def costs_nothing(promise: Promise) -> bool:
    """Whether a release with this promise uses none of anybody's budget: its output ignores the table."""
    return isinstance(promise, PureDP) and promise.epsilon == 0


def check_neighbors(neighbors: object) -> Neighbors:
    """Return the relation, or say which ones exist."""
    for known in NEIGHBORS:
        if isinstance(neighbors, str) and neighbors == known:
            return known
    raise BudgetError(f"Unknown neighbor relation. Use one of: {', '.join(NEIGHBORS)}.")


def format_number(value: Fraction) -> str:
    """Print a fraction as a short decimal if it is one, else rounded up at six significant digits."""
    from decimal import ROUND_CEILING, Context, Decimal

    twelve = Context(prec=12, rounding=ROUND_CEILING)
    exact = twelve.divide(Decimal(value.numerator), Decimal(value.denominator))
    if Fraction(exact) == value:
        return f"{exact.normalize():f}" if abs(exact.adjusted()) < 5 else f"{exact.normalize():e}"
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(exact):g}"
