"""What a release can promise: frozen values with exact numbers.

Every number is a :class:`fractions.Fraction`: what the custodian typed is what is promised, with no
binary rounding.
"""

import re
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from dpcov.errors import BudgetError

Neighbors = Literal["replace-one", "add-remove-one"]
"""``replace-one``: one person's rows are exchanged, the number of rows is public, as in the papers.
``add-remove-one``: one person's rows appear or vanish, the number of rows is private."""

Numerics = Literal["exact", "idealized"]
"""``exact``: the proof covers computer arithmetic.  ``idealized``: it assumes real numbers."""

NEIGHBORS: tuple[Neighbors, ...] = get_args(Neighbors)

# As `str` writes fractions.  1e999999999 as a fraction would fill the memory.
_EXACT = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")


@dataclass(frozen=True, kw_only=True)
class PureDP:
    """epsilon-differential privacy; with epsilon 0 the output does not depend on the table."""

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
    """A promise, whom it protects, and under which arithmetic it was proven."""

    promise: Promise
    neighbors: Neighbors
    rows_per_person: int
    numerics: Numerics

    def __str__(self) -> str:
        rows = self.rows_per_person
        unit = "one row" if rows == 1 else f"up to {rows} rows of one person"
        neighbors = f"{self.neighbors} neighbors"
        return f"{self.promise}, {neighbors}, unit: {unit}, numerics: {self.numerics}"


def promise_of(**numbers: Fraction | None) -> Promise:
    """Return the promise that has these numbers, None left out."""
    given = {name: number for name, number in numbers.items() if number is not None}
    for kind in get_args(Promise):
        if given.keys() == {field.name for field in fields(kind)}:
            made: Promise = kind(**given)
            return made
    raise BudgetError(
        "No promise has these numbers. Give either epsilon, epsilon and delta, or rho."
    )


# What is said of a release that costs nothing.
NOTHING = "Nothing in this release depends on the table."


def costs_nothing(promise: Promise) -> bool:
    """Whether a release with this promise uses no budget: its output ignores the table."""
    return isinstance(promise, PureDP) and promise.epsilon == 0


def check_neighbors(neighbors: object) -> Neighbors:
    """Return the relation, or say which ones exist."""
    if isinstance(neighbors, str) and neighbors in NEIGHBORS:
        return NEIGHBORS[NEIGHBORS.index(neighbors)]
    raise BudgetError(f"Unknown neighbor relation. Use one of: {', '.join(NEIGHBORS)}.")


def exact_number(text: str) -> Fraction:
    """Read a number that `str` wrote; ValueError or ZeroDivisionError if it is none."""
    if not _EXACT.fullmatch(text):
        raise ValueError
    return Fraction(text)


def format_number(value: Fraction) -> str:
    """Print a short decimal exactly, any other fraction rounded up at six significant digits."""
    # Rounding up: a stated epsilon, delta or rho is never smaller than the true one.
    twelve = Context(prec=12, rounding=ROUND_CEILING)
    exact = twelve.divide(Decimal(value.numerator), Decimal(value.denominator))
    if Fraction(exact) == value:
        return f"{exact.normalize():f}" if abs(exact.adjusted()) < 5 else f"{exact.normalize():e}"
    return f"{Context(prec=6, rounding=ROUND_CEILING).plus(exact):g}"
