"""What the custodian is willing to spend, kept exactly as typed.

Contract: the numbers in a :class:`Budget` are the numbers that were typed, and every number derived
from them is rounded toward more privacy.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Rational, Real

from dpcov.errors import BudgetError
from dpcov.privacy import convert
from dpcov.privacy.guarantee import ZCDP, Promise, promise_of

Given = int | float | Decimal | Fraction | str | None
"""A number as the user may write it; a float means its shortest decimal form: 0.1 is one tenth."""

# Beyond these an attacker's odds may change by a factor e^100: nobody is protected.
LARGEST_EPSILON = Fraction(100)
LARGEST_RHO = Fraction(1000)
# Numbers below 10^-300 are taken for mistakes.
SMALLEST_EXPONENT = -300
_SMALLEST = Fraction(1, 10**-SMALLEST_EXPONENT)
_LONGEST_BITS = 2**13


@dataclass(frozen=True, init=False)
class Budget:
    """A privacy budget: ``epsilon`` (pure), ``epsilon`` with ``delta``, or ``rho`` (zCDP).

    The numbers are positive; delta is less than 1, epsilon at most ``LARGEST_EPSILON``, rho at most
    ``LARGEST_RHO``.  Anything else raises BudgetError.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    def __init__(self, *, epsilon: Given = None, delta: Given = None, rho: Given = None) -> None:
        for name, value in {"epsilon": epsilon, "delta": delta, "rho": rho}.items():
            object.__setattr__(self, name, None if value is None else parse_number(name, value))
        promise_of(**vars(self))
        if self.delta is not None:
            convert.require_delta(self.delta)
        for name, largest in (("epsilon", LARGEST_EPSILON), ("rho", LARGEST_RHO)):
            if (getattr(self, name) or 0) > largest:
                advice = f"Use a smaller {name}; 1 or less is common."
                raise BudgetError(f"{name} above {largest} protects nobody. {advice}")

    @property
    def promise(self) -> Promise:
        """The budget as a promise."""
        return promise_of(**vars(self))

    def zcdp_rho(self) -> Fraction:
        """Return the largest rho whose guarantee lies inside this budget, rounded down."""
        if self.rho is not None:
            return self.rho
        if self.epsilon is not None and self.delta is not None:
            return convert.zcdp_rho(self.epsilon, self.delta)
        raise BudgetError(
            "Noise with a zCDP guarantee, such as Gaussian noise, cannot give a pure epsilon "
            "guarantee. Add a delta, use rho, or choose a mechanism with a pure guarantee."
        )

    def pure_epsilon(self) -> Fraction:
        """Return the largest epsilon whose pure guarantee lies inside this budget, rounded down."""
        promise = self.promise
        if isinstance(promise, ZCDP):
            return convert.zcdp_pure_epsilon(promise.rho)
        return promise.epsilon

    def __str__(self) -> str:
        return str(self.promise)

    def _repr_html_(self) -> str:
        from dpcov.markup import card, el
        from dpcov.privacy.meaning import certainty_in_words

        return card("Budget", str(self), el("p", certainty_in_words(self.promise)))


def budget_of(promise: Promise) -> Budget:
    """The budget of a promise that is nobody's wish, such as a part of one, however large.

    BudgetError as for one that is, if it is zero or has too many digits.
    """
    made = object.__new__(Budget)
    for name in ("epsilon", "delta", "rho"):
        value = getattr(promise, name, None)
        object.__setattr__(made, name, None if value is None else parse_number(name, value))
    return made


def check_budget(budget: Budget) -> None:
    """Refuse what is no budget, such as a bare epsilon."""
    if not isinstance(budget, Budget):
        raise BudgetError("Give the budget as Budget(epsilon=..., delta=...) or Budget(rho=...).")


def parse_number(name: str, value: object) -> Fraction:
    """Read a positive number exactly, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal | str):
        raise BudgetError(f"{name} must be a number or decimal text, not {type(value).__name__}.")
    # NumPy's integers are rational too; products of their own type would overflow.
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    else:
        exact = _from_decimal(name, value)
    if exact <= 0:
        pure = " Leave it out for a guarantee in epsilon alone." if name == "delta" else ""
        raise BudgetError(f"{name} must be greater than zero.{pure}")
    if exact < _SMALLEST:
        raise BudgetError(f"{name} is smaller than 1e{SMALLEST_EXPONENT}. Use a larger {name}.")
    # Ledgers and releases write numbers down whole, and read no longer ones back.
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _LONGEST_BITS:
        raise BudgetError(f"{name} has thousands of digits. Round it.")
    return exact


def _from_decimal(name: str, value: object) -> Fraction:
    # A subclass of float prints itself as it likes; NumPy's floats print their shortest decimal.
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise BudgetError(f"{name} is not a decimal number. Write it like 0.5 or 1e-6.") from None
    if not number.is_finite():
        raise BudgetError(f"{name} must be a finite number.")
    if number.adjusted() > -SMALLEST_EXPONENT:
        raise BudgetError(f"{name} is far too large. Use a smaller {name}.")
    # 1e-999999999 as a fraction would fill the memory; a short one, too small as well, does not.
    if number and number.adjusted() < SMALLEST_EXPONENT:
        number = Decimal(1).scaleb(SMALLEST_EXPONENT - 1).copy_sign(number)
    return Fraction(number)
